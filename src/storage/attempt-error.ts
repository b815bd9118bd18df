/** Above this an attempt's error is shortened: a job keeps up to 50 of them. */
const maxChars = 8_000
const maxStack = 3_000

/**
 * The error of an attempt as it is kept, as JSON text: that of the job, without its details and with less of its stack where it
 * is large. The message stays whole.
 */
export function boundAttemptError(error: string): string {
  if (error.length <= maxChars) return error
  try {
    const { details: _, stack, ...rest } = JSON.parse(error) as { details?: unknown; stack?: unknown }
    const kept =
      typeof stack === 'string' ? { ...rest, stack: stack.slice(0, maxStack).toWellFormed() } : rest
    return JSON.stringify(kept)
  } catch {
    // A damaged row: what it says is better than nothing.
    return JSON.stringify({ message: error.slice(0, maxStack).toWellFormed() })
  }
}

/** The error of an attempt whose lease expired, as JSON text; the same on every engine. */
export const lostError: string = JSON.stringify({
  code: 'lease_expired',
  message: 'The lease ran out: its worker died, hung or lost the store.',
})

/** Whether the verdict leaves a row of its attempt: the attempt failed. One that was handed back or snoozed has no error. */
export function leavesAttempt({
  state,
  error,
}: {
  readonly state: string
  readonly error: string | null
}): boolean {
  return error !== null && (state === 'scheduled' || state === 'ready' || state === 'dead')
}
