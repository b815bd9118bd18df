/** Longer errors of attempts are shortened, because a job keeps up to 50 of them. */
const maxChars = 8_000
const maxStack = 3_000

/**
 * The stored error of an attempt, as JSON text: the job's error without its details, and with a shorter stack if it is
 * large. The message is kept whole.
 */
export function boundAttemptError(error: string): string {
  if (error.length <= maxChars) return error
  try {
    const { details: _, stack, ...rest } = JSON.parse(error) as { details?: unknown; stack?: unknown }
    const kept =
      typeof stack === 'string' ? { ...rest, stack: stack.slice(0, maxStack).toWellFormed() } : rest
    return JSON.stringify(kept)
  } catch {
    // A damaged row: show its text.
    return JSON.stringify({ message: error.slice(0, maxStack).toWellFormed() })
  }
}

/** The error of an attempt whose lease expired, as JSON text. It is the same on every engine. */
export const lostError: string = JSON.stringify({
  code: 'lease_expired',
  message: 'The lease ran out: its worker died, hung or lost the store.',
})

/**
 * Whether the verdict writes a row for its attempt: only a failed attempt does. A returned or snoozed attempt has no
 * error.
 */
export function leavesAttempt({
  state,
  error,
}: {
  readonly state: string
  readonly error: string | null
}): boolean {
  return error !== null && (state === 'scheduled' || state === 'ready' || state === 'dead')
}
