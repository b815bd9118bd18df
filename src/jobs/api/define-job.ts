import type { Duration } from '../../core/duration.ts'
import { SignalboxError } from '../../core/errors.ts'
import { duration, onlyKeys, refuse, text } from '../../core/options.ts'
import { unfit } from '../job-errors.ts'
import { notForEach } from '../worker/handler-batch.ts'
import { type HandlerJob, withPayload } from '../worker/handler-job.ts'
import {
  type BatchHandler,
  type BatchSpec,
  type HandledJob,
  type Handler,
  type HandlerContext,
  resolveHandler,
} from '../worker/worker-options.ts'
import { type AddOptions, addKeys, definedBy, type JobToAdd, resolveNewJob } from './add-options.ts'
import {
  describeIssues,
  exportSchema,
  type Fit,
  type SchemaInput,
  type SchemaOutput,
  type StandardSchema,
  validateWith,
} from './schema-check.ts'

/**
 * A kind of job with its schema, so that producers and workers agree on the payload.
 *
 *     add ── the schema checks ──▶ stored as given ──▶ the schema checks again ──▶ the handler gets the schema's output
 *       └── does not fit: invalid_argument, nothing written   └── does not fit: dead, invalid_payload
 *
 * Signalbox stores the schema's **input**, not its output. A job may wait for days and be run by a newer program, whose
 * schema then applies its defaults. An output may not be JSON (a Date, a Map, a class), and a second run through the
 * schema may refuse it (`'5' → 5`). At the add, the schema sees a copy as the store will return it: a payload that
 * passes there passes later, as long as the schema stays the same.
 */
export interface JobDefinition<Kind extends string = string, Input = unknown, Output = Input> {
  readonly kind: Kind
  /** Creates one job for `addMany`, with the definition's options as defaults. `addMany` checks it. */
  job(payload: Input, options?: AddOptions): JobToAdd
  /** The handler for a worker; its `job.payload` is the schema's output. */
  handle(handler: Handler<Output>): HandledJob
  /** The schema's output for a payload, for jobs claimed by hand. Throws `invalid_payload`, `schema_failed`. */
  check(payload: unknown): Promise<Output>
}

// biome-ignore lint/suspicious/noExplicitAny: code that only passes a definition on does not know its payload.
export type AnyDefinition = JobDefinition<string, any, any>

/** The schema of a kind, and default options for its jobs. */
export interface DefineOptions<Schema extends StandardSchema = StandardSchema>
  extends Omit<AddOptions, 'runAt' | 'after'> {
  /** A schema from any library with Standard Schema v1: zod, valibot, arktype, or your own. */
  readonly schema: Schema
  /**
   * The payload's JSON Schema, which workers of the kind show to operators. @default the schema's own export, where its
   * library has one (Standard JSON Schema); else none
   */
  readonly jsonSchema?: Readonly<Record<string, unknown>> | undefined
  /** How long an asynchronous schema may take. @default 5_000 */
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
    'jsonSchema',
    'schemaTimeoutMs',
    ...addKeys.filter((key) => key !== 'runAt' && key !== 'after'),
  ])
  const { schema, jsonSchema, schemaTimeoutMs = 5_000, ...defaults } = options
  checkSchema(schema)
  if (jsonSchema !== undefined && (typeof jsonSchema !== 'object' || jsonSchema === null))
    refuse('defineJob.jsonSchema', 'a JSON Schema, as an object', jsonSchema)
  const timeoutMs = duration('defineJob.schemaTimeoutMs', schemaTimeoutMs, { min: 1, max: 600_000 })
  // Checks the defaults now, instead of at every add.
  resolveNewJob('defineJob', kind, null, defaults)
  type Output = SchemaOutput<Schema>
  const checking = schema as StandardSchema<unknown, Output>
  const validate = (payload: unknown) => validateWith(kind, checking, payload, timeoutMs)

  /** Returns a promise only if the schema does. */
  function checkAdded(name: string, encoded: string): Promise<unknown> | undefined {
    const judge = (fit: Fit<Output>): undefined => {
      if (fit.fits) return
      const { issues, issueCount } = fit
      throw new SignalboxError(
        'invalid_argument',
        `${name}.payload does not fit the kind "${kind}": ${describeIssues(fit)}. Nothing was added.`,
        { details: { option: `${name}.payload`, kind, issues, issueCount } },
      )
    }
    const fit = validate(JSON.parse(encoded))
    return fit instanceof Promise ? fit.then(judge) : judge(fit)
  }

  return {
    kind,
    job(payload, given = {}) {
      return { ...merge(defaults, given), kind, payload, [definedBy]: checkAdded }
    },
    handle(handler) {
      return {
        kind,
        handler: fitHandler(kind, handler, validate),
        get jsonSchema() {
          return jsonSchema ?? exportSchema(schema)
        },
      }
    },
    async check(payload) {
      const fit = await validate(payload)
      if (fit.fits) return fit.value
      const { issues, issueCount } = fit
      throw new SignalboxError(
        'invalid_payload',
        `This payload does not fit the kind "${kind}": ${describeIssues(fit)}.`,
        { details: { kind, issues, issueCount } },
      )
    },
  }
}

/** Checks the shape: another copy of this package may have made the definition. */
export function isDefinition(value: unknown): value is AnyDefinition {
  if (typeof value !== 'object' || value === null) return false
  const { kind, job, handle } = value as Partial<AnyDefinition>
  return typeof kind === 'string' && typeof job === 'function' && typeof handle === 'function'
}

type Validate<Output> = (payload: unknown) => Fit<Output> | Promise<Fit<Output>>

/** A handler that checks the payload first. */
function fitHandler<Output>(kind: string, handler: Handler<Output>, validate: Validate<Output>): Handler {
  const spec = resolveHandler(`the handler of "${kind}"`, handler)
  if (spec.batch !== undefined) return fitBatch(kind, spec, validate)
  const begin = (job: HandlerJob, context: HandlerContext, fit: Fit<Output>): unknown => {
    if (!fit.fits) throw unfit(job.id, kind, describeIssues(fit))
    return spec.run(withPayload(job, fit.value), context)
  }
  return {
    ...spec,
    run(job, context) {
      const fit = validate(job.payload)
      if (!(fit instanceof Promise)) return begin(job, context, fit)
      return fit.then((later) => {
        // The attempt may have timed out or lost its lease meanwhile; then the handler must not start.
        context.signal.throwIfAborted()
        return begin(job, context, later)
      })
    },
  }
}

function checkSchema(schema: unknown): void {
  const mayHaveProperties = (typeof schema === 'object' && schema !== null) || typeof schema === 'function'
  const standard: unknown = mayHaveProperties ? (schema as Partial<StandardSchema>)['~standard'] : undefined
  const { version, validate } = (standard ?? {}) as Partial<StandardSchema['~standard']>
  if (version === 1 && typeof validate === 'function') return
  refuse('defineJob.schema', 'a Standard Schema v1, such as one of zod, valibot or arktype', schema)
}

/** Given options replace defaults; an undefined option counts as not given. */
function merge(defaults: AddOptions, given: AddOptions): AddOptions {
  const merged: Record<string, unknown> = { ...defaults }
  // A job has runAt or delayMs, never both.
  if (given.runAt !== undefined) delete merged.delayMs
  for (const [key, value] of Object.entries(given)) if (value !== undefined) merged[key] = value
  return merged
}

/** Checks the jobs of a batch first. A job that does not fit is dead; the handler gets the others, if there are any. */
function fitBatch<Output>(kind: string, spec: BatchHandler, validate: Validate<Output>): BatchSpec {
  async function check(job: HandlerJob): Promise<HandlerJob<Output> | undefined> {
    try {
      const fit = await validate(job.payload)
      if (fit.fits) return withPayload(job, fit.value)
      endUnfit(job, unfit(job.id, kind, describeIssues(fit)), true)
    } catch (error) {
      // The schema failed; a later attempt may succeed.
      endUnfit(job, error, false)
    }
    return undefined
  }

  return {
    ...spec,
    async runBatch(jobs: readonly HandlerJob[], context: HandlerContext) {
      const checked = await Promise.all(jobs.map(check))
      // The batch may have timed out or lost its leases meanwhile; then the handler must not start.
      context.signal.throwIfAborted()
      const fit = checked.filter((job) => job !== undefined)
      if (fit.length === 0) return undefined
      const returned: unknown = await spec.runBatch(fit, context)
      if (!Array.isArray(returned)) return returned
      // The handler returned one result per job that it saw; the caller needs them by id.
      if (returned.length !== fit.length) throw notForEach(kind, returned.length, fit.length)
      return new Map(fit.map((job, index) => [job.id, returned[index] as unknown]))
    },
  }
}

function endUnfit(job: HandlerJob, error: unknown, dead: boolean): void {
  // If the lease is lost, another worker runs the job.
  job.nack({ error, dead }).catch(() => undefined)
}
