import { isSignalboxError } from '../../src/http/client/index.ts'

/** Why nothing comes from the server: one word for the banner, which alone reports it. */
export type Loss = 'server_unreachable' | 'store_unavailable' | 'timeout' | 'draining'

/** Undefined for errors that belong to one request: these are shown where it was made. */
export function lossOf(error: unknown): Loss | undefined {
  if (isSignalboxError(error, 'timeout')) return 'timeout'
  if (isSignalboxError(error, 'draining')) return 'draining'
  if (!isSignalboxError(error, 'store_unavailable')) return undefined
  // The client names the route in the errors it makes itself. A problem document from the server does not.
  return typeof error.details?.route === 'string' ? 'server_unreachable' : 'store_unavailable'
}
