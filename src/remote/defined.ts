import { SignalboxError } from '../core/errors.ts'

export type Defined<T> = { [Key in keyof T]: Exclude<T[Key], undefined> }

/** JSON has no undefined, and what is left out is the server's default. */
export function withoutUndefined<T extends object>(value: T): Defined<T> {
  if (typeof value !== 'object' || value === null)
    throw new SignalboxError('invalid_argument', 'Options must be an object.')
  return Object.fromEntries(Object.entries(value).filter(([, field]) => field !== undefined)) as Defined<T>
}
