import { isSignalboxError } from '../../core/errors.ts'

/** The answer, or undefined where there is no such thing. */
export async function orUndefined<Value>(promise: Promise<Value>): Promise<Value | undefined> {
  try {
    return await promise
  } catch (error) {
    if (isSignalboxError(error, 'not_found')) return undefined
    throw error
  }
}
