/**
 * The error of a run, for tests to throw and compare. What a handler threw is the same value. Of a `nack` only the
 * description is left; it becomes an Error with the same name, message, code and details.
 */
export function thrownBy(error: unknown): unknown {
  if (error instanceof Error || typeof error !== 'object' || error === null) return error
  const { message } = error as { message?: unknown }
  return typeof message === 'string' ? Object.assign(new Error(message), error) : error
}
