/**
 * The error of a run as a test can throw and compare it: what a handler threw is that very value. Of what it said by
 * `nack` only the description is left; it becomes an Error with the same name, message, code and details.
 */
export function thrownBy(error: unknown): unknown {
  if (error instanceof Error || typeof error !== 'object' || error === null) return error
  const { message } = error as { message?: unknown }
  return typeof message === 'string' ? Object.assign(new Error(message), error) : error
}
