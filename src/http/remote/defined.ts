import { SignalboxError } from '../../core/errors.ts'
import { show } from '../../core/options.ts'

export type Defined<T> = { [Key in keyof T]: Exclude<T[Key], undefined> }

/** JSON has no undefined, and what is left out is the server's default. */
export function withoutUndefined<T extends object>(value: T): Defined<T> {
  objectOf('Options', value)
  return Object.fromEntries(Object.entries(value).filter(([, field]) => field !== undefined)) as Defined<T>
}

/** That options are an object. Whatever else would come apart into nothing, and the server never hear of it. */
export function objectOf<T extends object>(name: string, value: T): T {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value
  throw new SignalboxError('invalid_argument', `${name} must be an object, not ${show(value)}.`, {
    details: { option: name },
  })
}
