import { Compile } from 'typebox/schema'
import { SignalboxError } from '../core/errors.ts'
import type { Schema } from '../wire/index.ts'
import { complain } from './complaint.ts'

/**
 * Whether a value is as its schema says. The check is compiled and quick; only when it fails does anybody look for the
 * words. Each schema is compiled once, when it is first met.
 */
export function validate(subject: Subject, schema: Schema, value: unknown): void {
  if (checkOf(schema)(value)) return
  throw new SignalboxError('invalid_argument', complain(subject, schema, value), {
    details: { in: subject.what },
  })
}

/** What is judged, as messages call it. */
export interface Subject {
  /** 'The body' */
  readonly what: string
  /** One thing in it: 'field' */
  readonly part: string
}

export const bodySubject: Subject = { what: 'The body', part: 'field' }
export const querySubject: Subject = { what: 'The query', part: 'parameter' }
export const pathSubject: Subject = { what: 'The path', part: 'parameter' }

type Check = (value: unknown) => boolean

const checks = new WeakMap<Schema, Check>()

/** Compiled now, so that nobody has to wait for it later. */
export function checkOf(schema: Schema): Check {
  const known = checks.get(schema)
  if (known !== undefined) return known
  const compiled = Compile(schema)
  const check: Check = (value) => compiled.Check(value)
  checks.set(schema, check)
  return check
}
