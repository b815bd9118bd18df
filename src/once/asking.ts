import { randomBytes } from 'node:crypto'
import type { Clock } from '../core/clock.ts'
import { isSignalboxError, SignalboxError } from '../core/errors.ts'

/**
 * Asking a store that may be gone. Every call has a deadline; what a store says after it is nobody's answer any more and
 * goes to `late`, which may have to undo it.
 */
export async function askWithin<Answer>(
  { clock, timeoutMs }: { readonly clock: Clock; readonly timeoutMs: number },
  call: string,
  ask: () => Promise<Answer>,
  late?: (answer: Answer) => unknown,
): Promise<Answer> {
  const { promise: over, reject } = Promise.withResolvers<never>()
  let isOver = false
  const timer = clock.setTimeout(() => {
    isOver = true
    reject(tookTooLong(call, timeoutMs))
  }, timeoutMs)
  const asked = ask()
  asked.then(
    (answer) => (isOver ? late?.(answer) : undefined),
    // Whoever still waits is told below; who does not, has been answered.
    () => undefined,
  )
  try {
    return await Promise.race([asked, over])
  } finally {
    clock.clearTimeout(timer)
  }
}

function tookTooLong(call: string, timeoutMs: number): SignalboxError {
  return new SignalboxError(
    'timeout',
    `once.${call} had no answer from its store within ${timeoutMs} ms; whether it took is not known. Try again, or raise once.timeoutMs.`,
    { details: { call, timeoutMs } },
  )
}

/** Whether an error says that the store could not be asked, and not that something else is wrong. */
export function isDown(error: unknown): boolean {
  return (
    isSignalboxError(error, 'store_unavailable') ||
    isSignalboxError(error, 'store_busy') ||
    isSignalboxError(error, 'commit_unknown') ||
    isSignalboxError(error, 'timeout')
  )
}

const degradedPrefix = 'degraded.'

/** The token of a claim that the store knows nothing of; no store takes it for one of its own. */
export function createDegradedToken(): string {
  return degradedPrefix + randomBytes(8).toString('hex')
}

export function isDegradedToken(token: string): boolean {
  return token.startsWith(degradedPrefix)
}
