/** The outcome of a promise, or an error that names the step that took too long. The awaited work itself continues. */
export async function within<T>(ms: number, what: string, promise: Promise<T>): Promise<T> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error(`${what} took more than ${ms / 1_000} s`)), ms)
  try {
    return await Promise.race([promise, late])
  } finally {
    clearTimeout(timer)
  }
}
