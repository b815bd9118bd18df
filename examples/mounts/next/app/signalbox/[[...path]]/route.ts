/**
 * Signalbox in a Next.js app: everything below /signalbox. next.config.ts must say `serverExternalPackages: ['signalbox']`,
 * so that it is loaded from node_modules as it is. Next has no place for WebSockets, by which nodes come: they need a
 * `signalbox serve` on the same database.
 */
import { open } from 'signalbox'
import { createHandler, type FetchHandler } from 'signalbox/server'

/** One for the process: while you develop, Next loads this file anew whenever it changed. */
const kept = globalThis as { signalbox?: Promise<FetchHandler> }

// Opened when the first request comes, for a build loads this file too.
async function start(): Promise<FetchHandler> {
  const box = await open(process.env.SIGNALBOX_DATABASE ?? 'sqlite:signalbox.db')
  const { SIGNALBOX_TOKEN: secret } = process.env
  return createHandler({ box, basePath: '/signalbox', bootstrap: secret === undefined ? [] : [secret] })
}

async function answer(request: Request): Promise<Response> {
  kept.signalbox ??= start().catch((error: unknown) => {
    // The next request tries again: a database that was away may be back by then.
    delete kept.signalbox
    throw error
  })
  const handler = await kept.signalbox
  return handler(request)
}

export const dynamic = 'force-dynamic'
export { answer as DELETE, answer as GET, answer as HEAD, answer as POST }
