import { systemClock } from '../../core/clock.ts'
import { describeError } from '../../core/describe-error.ts'
import { isSignalboxError, SignalboxError } from '../../core/errors.ts'
import type { SchemaIssue, StandardSchema } from './standard-schema.ts'

/**
 * Asks a schema whether a value fits. The schema is somebody else's code: it may answer at once or later, throw, never
 * answer, or answer nonsense, and each of these ends here as a value or as one typed error (`schema_failed`).
 */
export type Fit<Output> =
  | { readonly fits: true; readonly value: Output }
  | { readonly fits: false; readonly issues: readonly FoundIssue[]; readonly issueCount: number }

/** One thing that is wrong with a payload; `path` is written as in code, and empty for the whole. */
export interface FoundIssue {
  readonly path: string
  readonly message: string
}

/** Of a payload that is wrong all over, the first ones say enough. */
const maxIssues = 20
const maxPathSteps = 40
const maxText = 200

/** A promise only when the schema answers with one; then it is waited for up to `timeoutMs`. */
export function askSchema<Output>(
  kind: string,
  schema: StandardSchema<unknown, Output>,
  value: unknown,
  timeoutMs: number,
): Fit<Output> | Promise<Fit<Output>> {
  let answer: unknown
  try {
    answer = schema['~standard'].validate(value)
    if (!isThenable(answer)) return readAnswer(kind, answer)
  } catch (error) {
    throw failed(kind, error)
  }
  return waitFor<Output>(kind, answer, timeoutMs)
}

function waitFor<Output>(
  kind: string,
  answer: PromiseLike<unknown>,
  timeoutMs: number,
): Promise<Fit<Output>> {
  return new Promise((resolve, reject) => {
    const timer = systemClock.setTimeout(() => reject(tooSlow(kind, timeoutMs)), timeoutMs)
    const end = (step: () => void) => {
      systemClock.clearTimeout(timer)
      step()
    }
    // By way of Promise: a foreign thenable may throw when it is called, or call back twice.
    Promise.resolve(answer)
      .then((given) => readAnswer<Output>(kind, given))
      .then(
        (fit) => end(() => resolve(fit)),
        (error: unknown) => end(() => reject(failed(kind, error))),
      )
  })
}

function isThenable(answer: unknown): answer is PromiseLike<unknown> {
  return (
    typeof answer === 'object' && answer !== null && typeof (answer as { then?: unknown }).then === 'function'
  )
}

function readAnswer<Output>(kind: string, answer: unknown): Fit<Output> {
  if (typeof answer !== 'object' || answer === null) throw nonsense(kind)
  const { issues } = answer as { issues?: unknown }
  if (issues === undefined) {
    if (!('value' in answer)) throw nonsense(kind)
    return { fits: true, value: answer.value as Output }
  }
  // Issues are there, so it does not fit, also when the list is empty.
  if (!Array.isArray(issues)) throw nonsense(kind)
  const found = Array.from(issues.slice(0, maxIssues) as SchemaIssue[], readIssue)
  return { fits: false, issues: found, issueCount: issues.length }
}

function readIssue(issue: SchemaIssue): FoundIssue {
  const { message, path } = issue ?? {}
  return {
    path: Array.isArray(path) ? clip(path.slice(0, maxPathSteps).reduce(addStep, '')) : '',
    message: typeof message === 'string' ? clip(message) : 'It does not fit.',
  }
}

function addStep(before: string, step: PropertyKey | { readonly key: PropertyKey }): string {
  const key = typeof step === 'object' && step !== null ? step.key : step
  if (typeof key === 'number') return `${before}[${key}]`
  const name = String(key)
  if (!/^[\p{ID_Start}$_][\p{ID_Continue}$]*$/u.test(name)) return `${before}[${JSON.stringify(name)}]`
  return before === '' ? name : `${before}.${name}`
}

function clip(text: string): string {
  return text.length > maxText ? `${text.slice(0, maxText).toWellFormed()}…` : text
}

/** The issues as a message tells them; `payload` is how it calls the whole. */
export function tellIssues(payload: string, issues: readonly FoundIssue[], issueCount: number): string {
  const told = issues.slice(0, 5).map(({ path, message }) => {
    const where = path === '' || path.startsWith('[') ? `${payload}${path}` : `${payload}.${path}`
    return `${where}: ${message.replace(/\.$/, '')}`
  })
  const more = issueCount - told.length
  return `${told.join('; ') || 'the schema gives no reason'}${more > 0 ? `; and ${more} more` : ''}`
}

function failed(kind: string, error: unknown): SignalboxError {
  if (isSignalboxError(error, 'schema_failed')) return error
  return new SignalboxError(
    'schema_failed',
    `The schema of the kind "${kind}" threw instead of answering (${clip(describeError(error).message)}). Mend it, so that it answers with issues.`,
    { cause: error, details: { kind } },
  )
}

function tooSlow(kind: string, timeoutMs: number): SignalboxError {
  return new SignalboxError(
    'schema_failed',
    `The schema of the kind "${kind}" did not answer in ${timeoutMs} ms. Mend it, or raise schemaTimeoutMs in defineJob.`,
    { details: { kind, timeoutMs } },
  )
}

function nonsense(kind: string): SignalboxError {
  return new SignalboxError(
    'schema_failed',
    `The schema of the kind "${kind}" answered with neither a value nor issues, so it is no Standard Schema v1.`,
    { details: { kind } },
  )
}
