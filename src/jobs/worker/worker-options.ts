import { hostname } from 'node:os'
import type { Duration } from '../../core/duration.ts'
import { invalidArgument, SignalboxError } from '../../core/errors.ts'
import { createId } from '../../core/ids.ts'
import { callable, duration, oneOf, onlyKeys, refuse, show, text, whole } from '../../core/options.ts'
import { leaseSpan, queueNames } from '../api/add-options.ts'
import { resolveRelease } from '../jobs-options.ts'
import type { HandlerJob } from './handler-job.ts'

/** The second argument of a handler. */
export interface HandlerContext {
  /**
   * Aborts when the attempt times out, its lease is lost, the job is cancelled, or the worker stops. The signal of a
   * batch aborts when that is true of every job in it; each job also has its own `signal`.
   */
  readonly signal: AbortSignal
}

/** Does the work of one kind of job. A return acks and a throw nacks, unless the handler already ended the job. */
// biome-ignore lint/suspicious/noExplicitAny: a payload is what the adder put in; typed kinds give it its type.
export type HandlerFunction<Payload = any> = (job: HandlerJob<Payload>, context: HandlerContext) => unknown

/** A handler with its policies. */
// biome-ignore lint/suspicious/noExplicitAny: as above.
export interface HandlerSpec<Payload = any> {
  readonly run: HandlerFunction<Payload>
  /** `transaction`: a return without a committed ack is nacked with `ack_missing`. @default 'any' */
  readonly finish?: 'any' | 'transaction'
  /** How many `job.transaction` calls may share one commit, each in its savepoint. @default 1 */
  readonly group?: number
  /** Only with `runBatch`. */
  readonly batch?: undefined
}

/** Does the work of several jobs of a kind in one call. */
// biome-ignore lint/suspicious/noExplicitAny: as above.
export type BatchFunction<Payload = any> = (
  jobs: readonly HandlerJob<Payload>[],
  context: HandlerContext,
) => unknown

/**
 * A handler that gets up to `size` jobs at once. A return acks and a throw nacks the jobs that have not ended yet. To
 * end each job differently, return an array with one outcome for each, or a Map by job id.
 */
// biome-ignore lint/suspicious/noExplicitAny: as above.
export interface BatchSpec<Payload = any> extends Omit<HandlerSpec<Payload>, 'run' | 'batch'> {
  readonly batch: {
    /** The most jobs of one call. It counts as one of the worker's `concurrency`. */
    readonly size: number
    /** How long to wait for more jobs when there are fewer. @default 0 */
    readonly waitMs?: Duration | undefined
  }
  readonly runBatch: BatchFunction<Payload>
}

// biome-ignore lint/suspicious/noExplicitAny: as above.
export type Handler<Payload = any> = HandlerFunction<Payload> | HandlerSpec<Payload> | BatchSpec<Payload>

/** A checked handler with all its policies. */
export type ResolvedHandler = PlainHandler | BatchHandler

export interface PlainHandler extends Required<Omit<HandlerSpec, 'batch'>> {
  readonly batch?: undefined
}

export interface BatchHandler extends Required<Omit<BatchSpec, 'batch'>> {
  readonly batch: { readonly size: number; readonly waitMs: number }
}

/** A kind and what does its work; a definition's `handle` makes one that checks the payload first. */
export interface HandledJob {
  readonly kind: string
  readonly handler: Handler
  /** The payload's JSON Schema, which the worker shows to operators. @default none */
  readonly jsonSchema?: unknown
}

/**
 * Not a handler, and refused when it is used. `{ charge: charge.handle(…) }` comes closest to this type, so the
 * compiler shows its text.
 */
export interface MisplacedHandledJob {
  readonly kind: 'A handled definition belongs in a list: write handlers: [charge.handle(…)], without the kind before it.'
  readonly handler: Handler
}

/**
 * By kind, or as a list. (Not an array by its type: the names of an array's methods would be kinds whose handlers
 * TypeScript could not type.)
 */
export type Handlers = Readonly<Record<string, Handler | MisplacedHandledJob>> | Iterable<HandledJob>

/** What a worker is made of. */
export interface WorkerOptions {
  /** By kind, or a list of handled definitions. Jobs of other kinds are left for workers that know them. */
  readonly handlers: Handlers
  /** @default ['default'] */
  readonly queues?: readonly string[] | undefined
  /** How many handlers run at once. @default 10 */
  readonly concurrency?: number | undefined
  /**
   * The most jobs to buffer beyond the running ones, so that no slot waits for a round trip. The worker buffers only
   * what it will probably start within a tenth of a second. @default 500
   */
  readonly prefetch?: number | undefined
  /** How long a claim is valid without renewal. Then another worker may take the job. @default 30_000 */
  readonly leaseMs?: Duration | undefined
  /** How often to poll without a wake-up. @default 1_000 */
  readonly pollMs?: Duration | undefined
  /** The worker's name, for people; it protects nothing. @default host name, process id and a few random characters */
  readonly workerId?: string | undefined
  /** The version of your program, which the list of workers shows. @default the box's `jobs.release` */
  readonly release?: string | undefined
  /**
   * How long a `job.transaction` without its own limit may take before it is rolled back with `transaction_timeout`.
   * @default on SQLite, where all other writes wait for it, 5_000 or a third of the lease; elsewhere none
   */
  readonly transactionTimeoutMs?: Duration | undefined
  /** How long a loop may go without progress before it is replaced. @default 30_000 */
  readonly watchdogMs?: Duration | undefined
}

export interface ResolvedWorkerOptions {
  readonly handlers: ReadonlyMap<string, ResolvedHandler>
  /** Functions that read the JSON Schema of a kind. */
  readonly schemas: ReadonlyMap<string, () => unknown>
  readonly queues: readonly string[]
  readonly concurrency: number
  readonly prefetch: number
  readonly leaseMs: number
  readonly pollMs: number
  readonly workerId: string
  /** Null: the release of the box. */
  readonly release: string | null
  /** 0: the store's default. */
  readonly transactionTimeoutMs: number
  readonly watchdogMs: number
}

const keys = [
  'handlers',
  'queues',
  'concurrency',
  'prefetch',
  'leaseMs',
  'pollMs',
  'workerId',
  'release',
  'transactionTimeoutMs',
  'watchdogMs',
]

export function resolveWorkerOptions(options: WorkerOptions, own = false): ResolvedWorkerOptions {
  onlyKeys('worker', options, keys)
  const { queues = ['default'], concurrency = 10, prefetch = 500, leaseMs = 30_000, pollMs = 1_000 } = options
  const {
    workerId = `${hostname().slice(0, 100)}:${process.pid}:${createId().slice(-6)}`,
    transactionTimeoutMs,
    watchdogMs = 30_000,
    release,
  } = options
  return Object.freeze({
    ...resolveHandlers(options.handlers),
    queues: queueNames('worker.queues', queues, own),
    concurrency: whole('worker.concurrency', concurrency, { min: 1, max: 100_000 }),
    prefetch: whole('worker.prefetch', prefetch, { max: 10_000 }),
    leaseMs: leaseSpan('worker.leaseMs', leaseMs),
    pollMs: duration('worker.pollMs', pollMs, { min: 10, max: 3_600_000 }),
    workerId: text('worker.workerId', workerId),
    release: resolveRelease('worker.release', release),
    transactionTimeoutMs:
      transactionTimeoutMs === undefined
        ? 0
        : duration('worker.transactionTimeoutMs', transactionTimeoutMs, { min: 1 }),
    watchdogMs: duration('worker.watchdogMs', watchdogMs, { min: 100, max: 2 ** 31 - 1 }),
  })
}

/** A Map of own keys: a job of the kind `constructor` must not find an inherited function. */
function resolveHandlers(handlers: unknown): Pick<ResolvedWorkerOptions, 'handlers' | 'schemas'> {
  if (typeof handlers !== 'object' || handlers === null) throw noHandlers(show(handlers))
  const listed = handledJobs(handlers as Handlers)
  if (listed.length === 0) throw noHandlers('an empty one')
  const byKind = new Map<string, ResolvedHandler>()
  const schemas = new Map<string, () => unknown>()
  for (const handled of listed) {
    const { kind, handler } = handled
    text('a kind in worker.handlers', kind)
    if (byKind.has(kind)) throw handledTwice(kind)
    byKind.set(kind, resolveHandler(`worker.handlers.${kind}`, handler))
    // The worker reads schemas when it starts, because a schema library may be slow.
    if ('jsonSchema' in handled) schemas.set(kind, () => handled.jsonSchema)
  }
  return { handlers: byKind, schemas }
}

/** Turns both forms of `handlers` into one list. */
function handledJobs(handlers: Handlers): readonly HandledJob[] {
  if (!isList(handlers)) {
    return Object.entries(handlers).map(([kind, handler]) => {
      if (isHandled(handler)) throw misplaced(kind)
      return { kind, handler: handler as Handler }
    })
  }
  return Array.from(handlers, (handled: unknown, index) => {
    if (isHandled(handled)) return handled
    return refuse(
      `worker.handlers[${index}]`,
      "what a definition's handle gave, or { kind, handler }",
      handled,
    )
  })
}

function isHandled(handled: unknown): handled is HandledJob {
  return typeof handled === 'object' && handled !== null && 'kind' in handled && 'handler' in handled
}

function misplaced(kind: string): SignalboxError {
  return invalidArgument(
    `worker.handlers.${kind} is a handled definition, which belongs in a list. Write handlers: [${kind}.handle(…)], without the kind before it.`,
    `worker.handlers.${kind}`,
  )
}

function isList(handlers: Handlers): handlers is Iterable<HandledJob> {
  return typeof (handlers as Partial<Iterable<unknown>>)[Symbol.iterator] === 'function'
}

/** Checks a handler and fills in its policies. Error messages call it `name`. */
export function resolveHandler(name: string, handler: unknown): ResolvedHandler {
  if (typeof handler === 'function') return { run: handler as HandlerFunction, finish: 'any', group: 1 }
  if (typeof handler !== 'object' || handler === null)
    refuse(name, 'a function, { run, … }, or { batch, runBatch, … }', handler)
  const { finish = 'any', group = 1 } = handler as Partial<HandlerSpec>
  const policies = {
    finish: oneOf(`${name}.finish`, finish, ['any', 'transaction']),
    group: whole(`${name}.group`, group, { min: 1, max: 1_000 }),
  }
  if ('batch' in handler || 'runBatch' in handler) {
    onlyKeys(name, handler, ['batch', 'runBatch', 'finish', 'group'])
    const { batch, runBatch } = handler as BatchSpec
    callable(`${name}.runBatch`, runBatch)
    return { ...policies, batch: resolveBatch(`${name}.batch`, batch), runBatch }
  }
  onlyKeys(name, handler, ['run', 'finish', 'group'])
  const { run } = handler as HandlerSpec
  return { run: callable(`${name}.run`, run), ...policies }
}

/** The limit of one claim. */
const maxBatch = 500

function resolveBatch(name: string, batch: unknown): BatchHandler['batch'] {
  if (typeof batch !== 'object' || batch === null)
    refuse(name, 'how many jobs a batch has, such as { size: 50 }', batch)
  onlyKeys(name, batch, ['size', 'waitMs'])
  const { size, waitMs = 0 } = batch as Partial<BatchSpec['batch']>
  return {
    size: whole(`${name}.size`, size, { min: 1, max: maxBatch }),
    waitMs: duration(`${name}.waitMs`, waitMs, { max: 60_000 }),
  }
}

function noHandlers(got: string): SignalboxError {
  return invalidArgument(
    `worker.handlers must be an object with a handler for each kind, such as { mail: async (job) => { … } }, or a list of handled definitions, not ${got}.`,
  )
}

function handledTwice(kind: string): SignalboxError {
  return new SignalboxError(
    'invalid_argument',
    `worker.handlers has two handlers of the kind ${show(kind)}; a worker does one thing for a kind.`,
    { details: { option: 'worker.handlers', kind } },
  )
}
