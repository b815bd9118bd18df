import { randomBytes } from 'node:crypto'
import type { Clock } from '../core/clock.ts'
import { isSignalboxError, SignalboxError } from '../core/errors.ts'

/**
 * Asking a store that may be gone. Every call has a deadline; what a store says after it is nobody's answer any more and
 * goes to `late`, which may have to undo it.
 */
export function askWithin<Answer>(
  { clock, timeoutMs }: { readonly clock: Clock; readonly timeoutMs: number },
  call: string,
  ask: () => Promise<Answer>,
  late?: (answer: Answer) => unknown,
): Promise<Answer> {
  // One promise and no race: there is a claim for every event.
  return new Promise((resolve, reject) => {
    let isOver = false
    const timer = clock.setTimeout(() => {
      isOver = true
      reject(tookTooLong(call, timeoutMs))
    }, timeoutMs)
    ask().then(
      (answer) => {
        clock.clearTimeout(timer)
        if (isOver) late?.(answer)
        else resolve(answer)
      },
      (error) => {
        clock.clearTimeout(timer)
        // The caller has its answer already: it took too long.
        reject(error)
      },
    )
  })
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
