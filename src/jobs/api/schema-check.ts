import { within } from '../../core/clock.ts'
import { describeError } from '../../core/describe-error.ts'
import { isSignalboxError, SignalboxError } from '../../core/errors.ts'
import type { NewJob } from '../job-store.ts'
import type { PayloadCheck } from './add-options.ts'

/**
 * Checks a value with a schema. The schema is foreign code: it may return a promise, throw, never answer, or
 * return the wrong type. Each case ends here as a value or as one error (`schema_failed`).
 */
export type Fit<Output> =
  | { readonly fits: true; readonly value: Output }
  | { readonly fits: false; readonly issues: readonly FoundIssue[]; readonly issueCount: number }

/** One error in a payload. `path` is written as in code, and empty for the whole payload. */
export interface FoundIssue {
  readonly path: string
  readonly message: string
}

/** The first issues are enough. */
const maxIssues = 20
const maxPathSteps = 40
const maxText = 200

/** Returns a promise only if the schema does, and waits for it up to `timeoutMs`. */
export function validateWith<Output>(
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
  // A promise shields this code from a foreign thenable, which may throw when it is called, or call back twice.
  const fit = Promise.resolve(answer).then((given) => readAnswer<Output>(kind, given))
  const late = () => {
    throw tooSlow(kind, timeoutMs)
  }
  return within(timeoutMs, fit, late).catch((error: unknown) => {
    throw failed(kind, error)
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
  // A list of issues means that it does not fit, even if the list is empty.
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

/** Describes the issues of a payload in one text. */
export function describeIssues({ issues, issueCount }: Extract<Fit<unknown>, { fits: false }>): string {
  const described = issues.slice(0, 5).map(({ path, message }) => {
    const where = path === '' || path.startsWith('[') ? `payload${path}` : `payload.${path}`
    return `${where}: ${message.replace(/\.$/, '')}`
  })
  const more = issueCount - described.length
  return `${described.join('; ') || 'the schema gives no reason'}${more > 0 ? `; and ${more} more` : ''}`
}

function failed(kind: string, error: unknown): SignalboxError {
  if (isSignalboxError(error, 'schema_failed')) return error
  return new SignalboxError(
    'schema_failed',
    `The schema of the kind "${kind}" threw instead of returning issues (${clip(describeError(error).message)}). Fix the schema.`,
    { cause: error, details: { kind } },
  )
}

function tooSlow(kind: string, timeoutMs: number): SignalboxError {
  return new SignalboxError(
    'schema_failed',
    `The schema of the kind "${kind}" did not answer in ${timeoutMs} ms. Fix it, or raise schemaTimeoutMs in defineJob.`,
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

/** The most asynchronous checks at once. */
const maxConcurrentChecks = 100

/** Checks the payloads of jobs that have a schema, before anything is written. */
export async function checkPayloads(
  checks: readonly (PayloadCheck | undefined)[],
  records: readonly NewJob[],
): Promise<void> {
  let waiting: Promise<unknown>[] = []
  for (const [index, check] of checks.entries()) {
    const checked = check?.(`addMany[${index}]`, records[index]!.payload)
    if (checked === undefined) continue
    // Another check may fail first; then this rejection must not be unhandled.
    checked.catch(() => undefined)
    if (waiting.push(checked) < maxConcurrentChecks) continue
    await Promise.all(waiting)
    waiting = []
  }
  await Promise.all(waiting)
}

/**
 * Standard Schema v1 (standardschema.dev): the property by which zod, valibot, arktype and other libraries validate in
 * the same way. Declared here, so that users need no library for it.
 */
export interface StandardSchema<Input = unknown, Output = Input> {
  readonly '~standard': {
    readonly version: 1
    readonly vendor: string
    readonly validate: (value: unknown) => SchemaResult<Output> | Promise<SchemaResult<Output>>
    /** Standard JSON Schema: the library's own export. */
    readonly jsonSchema?:
      | { readonly input: (options: { readonly target: 'draft-2020-12' }) => Record<string, unknown> }
      | undefined
    /** Only for TypeScript. */
    readonly types?: { readonly input: Input; readonly output: Output } | undefined
  }
}

/** The JSON Schema of a schema's input. Undefined: the library exports none, or none for this schema. */
export function exportSchema(schema: StandardSchema): unknown {
  try {
    return schema['~standard'].jsonSchema?.input({ target: 'draft-2020-12' })
  } catch {
    return undefined
  }
}

/** A schema's answer: its output, or the issues. */
export type SchemaResult<Output> =
  | { readonly value: Output; readonly issues?: undefined }
  | { readonly issues: readonly SchemaIssue[] }

/** One error and its path. */
export interface SchemaIssue {
  readonly message: string
  readonly path?: readonly (PropertyKey | { readonly key: PropertyKey })[] | undefined
}

/** The input of a schema. */
export type SchemaInput<Schema extends StandardSchema> = NonNullable<Schema['~standard']['types']>['input']

/** The output of a schema. */
export type SchemaOutput<Schema extends StandardSchema> = NonNullable<Schema['~standard']['types']>['output']
