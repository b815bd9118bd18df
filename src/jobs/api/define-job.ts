import type { Duration } from '../../core/duration.ts'
import { SignalboxError } from '../../core/errors.ts'
import { duration, onlyKeys, show, text } from '../../core/options.ts'
import { unfit } from '../job-errors.ts'
import { type HandlerJob, withPayload } from '../worker/handler-job.ts'
import {
  type HandledJob,
  type Handler,
  type HandlerContext,
  resolveHandler,
} from '../worker/worker-options.ts'
import { type AddOptions, addKeys, definedBy, type JobToAdd, resolveNewJob } from './add-options.ts'
import { fitBatch } from './batch-schema-check.ts'
import { askSchema, type Fit, tellIssues } from './schema-check.ts'
import type { SchemaInput, SchemaOutput, StandardSchema } from './standard-schema.ts'

/**
 * A kind of job with its schema: who adds it and who does it cannot mean different payloads.
 *
 *     add ── the schema looks at it ──▶ kept as it was given ──▶ the schema looks again ──▶ handler gets what it made
 *       └── does not fit: invalid_argument, nothing written        └── does not fit: dead, invalid_payload
 *
 * What is kept is the schema's **input**, not its output. A job may lie for days and be run by a newer program: its
 * own schema then makes its own output of it, with its own defaults. An output may not even be JSON (a Date, a Map, a
 * class), and run through the schema twice it need not fit (`'5' → 5`). So what a schema makes is made once, where it
 * is used. When it is added, the schema sees the payload as it will be read back from the store, in a copy of its own:
 * what passed there passes later, as long as the schema stays the same.
 */
export interface JobDefinition<Kind extends string = string, Input = unknown, Output = Input> {
  readonly kind: Kind
  /** One job for `addMany`, with the definition's options where none are given. Nothing is checked before it is added. */
  job(payload: Input, options?: AddOptions): JobToAdd
  /** The handler for a worker's list: its `job.payload` is what the schema made of what was kept. */
  handle(handler: Handler<Output>): HandledJob
  /** What the schema makes of a payload, for jobs claimed by hand. Throws `invalid_payload`, `schema_failed`. */
  check(payload: unknown): Promise<Output>
}

// biome-ignore lint/suspicious/noExplicitAny: what a definition is for is nobody's business who only passes it on.
export type AnyDefinition = JobDefinition<string, any, any>

/** What a kind is defined by: its schema, and options for every job of it that says nothing else. */
export interface DefineOptions<Schema extends StandardSchema = StandardSchema>
  extends Omit<AddOptions, 'runAt' | 'after'> {
  /** Of any library that speaks Standard Schema v1: zod, valibot, arktype, or your own. */
  readonly schema: Schema
  /** How long a schema that answers later may take. @default 5_000 */
  readonly schemaTimeoutMs?: Duration | undefined
}

/** Defines a kind of job by its schema. */
export function defineJob<const Kind extends string, Schema extends StandardSchema>(
  kind: Kind,
  options: DefineOptions<Schema>,
): JobDefinition<Kind, SchemaInput<Schema>, SchemaOutput<Schema>> {
  text('defineJob.kind', kind)
  onlyKeys('defineJob', options, [
    'schema',
    'schemaTimeoutMs',
    ...addKeys.filter((key) => key !== 'runAt' && key !== 'after'),
  ])
  const { schema, schemaTimeoutMs = 5_000, ...defaults } = options
  checkSchema(schema)
  const timeoutMs = duration('defineJob.schemaTimeoutMs', schemaTimeoutMs, { min: 1, max: 600_000 })
  // Only to refuse here what every add would be refused for.
  resolveNewJob('defineJob', kind, null, defaults)
  return new Definition(kind, schema as StandardSchema<unknown, SchemaOutput<Schema>>, timeoutMs, defaults)
}

/** Whether it is a definition, by its shape: another copy of this package may have made it. */
export function isDefinition(value: unknown): value is AnyDefinition {
  if (typeof value !== 'object' || value === null) return false
  const { kind, job, handle } = value as Partial<AnyDefinition>
  return typeof kind === 'string' && typeof job === 'function' && typeof handle === 'function'
}

class Definition<Kind extends string, Input, Output> implements JobDefinition<Kind, Input, Output> {
  readonly kind: Kind
  readonly #schema: StandardSchema<unknown, Output>
  readonly #timeoutMs: number
  readonly #defaults: AddOptions

  constructor(kind: Kind, schema: StandardSchema<unknown, Output>, timeoutMs: number, defaults: AddOptions) {
    this.kind = kind
    this.#schema = schema
    this.#timeoutMs = timeoutMs
    this.#defaults = defaults
  }

  job(payload: Input, options: AddOptions = {}): JobToAdd {
    const check = (name: string, encoded: string) => this.#checkAdded(name, encoded)
    return { ...merge(this.#defaults, options), kind: this.kind, payload, [definedBy]: check }
  }

  handle(handler: Handler<Output>): HandledJob {
    const spec = resolveHandler(`the handler of "${this.kind}"`, handler)
    if (spec.batch !== undefined) {
      return { kind: this.kind, handler: fitBatch(this.kind, spec, (payload) => this.#ask(payload)) }
    }
    const begin = (job: HandlerJob, context: HandlerContext, fit: Fit<Output>): unknown => {
      if (!fit.fits) throw unfit(job.id, this.kind, tellIssues('payload', fit.issues, fit.issueCount))
      return spec.run(withPayload(job, fit.value), context)
    }
    const run = (job: HandlerJob, context: HandlerContext): unknown => {
      const fit = this.#ask(job.payload)
      if (!(fit instanceof Promise)) return begin(job, context, fit)
      return fit.then((later) => {
        // Its time may be up by now, or its lease lost; then the work must not begin.
        context.signal.throwIfAborted()
        return begin(job, context, later)
      })
    }
    return { kind: this.kind, handler: { ...spec, run } }
  }

  async check(payload: unknown): Promise<Output> {
    const fit = await this.#ask(payload)
    if (fit.fits) return fit.value
    const { issues, issueCount } = fit
    throw new SignalboxError(
      'invalid_payload',
      `This payload does not fit the kind "${this.kind}": ${tellIssues('payload', issues, issueCount)}.`,
      { details: { kind: this.kind, issues, issueCount } },
    )
  }

  #ask(payload: unknown): Fit<Output> | Promise<Fit<Output>> {
    return askSchema(this.kind, this.#schema, payload, this.#timeoutMs)
  }

  /** A promise only when the schema answers later. */
  #checkAdded(name: string, encoded: string): Promise<unknown> | undefined {
    const judge = (fit: Fit<Output>): undefined => {
      if (fit.fits) return
      const { issues, issueCount } = fit
      throw new SignalboxError(
        'invalid_argument',
        `${name}.payload does not fit the kind "${this.kind}": ${tellIssues('payload', issues, issueCount)}. Nothing was added.`,
        { details: { option: `${name}.payload`, kind: this.kind, issues, issueCount } },
      )
    }
    const fit = this.#ask(JSON.parse(encoded))
    return fit instanceof Promise ? fit.then(judge) : judge(fit)
  }
}

function checkSchema(schema: unknown): void {
  const isThing = (typeof schema === 'object' && schema !== null) || typeof schema === 'function'
  const standard: unknown = isThing ? (schema as Partial<StandardSchema>)['~standard'] : undefined
  const { version, validate } = (standard ?? {}) as Partial<StandardSchema['~standard']>
  if (version === 1 && typeof validate === 'function') return
  throw new SignalboxError(
    'invalid_argument',
    `defineJob.schema must be a Standard Schema v1, such as one of zod, valibot or arktype, not ${isThing ? 'something without "~standard"' : show(schema)}.`,
    { details: { option: 'defineJob.schema' } },
  )
}

/** What is given goes before what is defined; an option that is undefined counts as not given. */
function merge(defaults: AddOptions, given: AddOptions): AddOptions {
  const merged: Record<string, unknown> = { ...defaults }
  // They exclude each other, and an instant that is given is meant.
  if (given.runAt !== undefined) delete merged.delayMs
  for (const [key, value] of Object.entries(given)) if (value !== undefined) merged[key] = value
  return merged
}
