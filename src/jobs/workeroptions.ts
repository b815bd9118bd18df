import { hostname } from 'node:os'
import { SignalboxError } from '../core/errors.ts'
import { createId } from '../core/ids.ts'
import { duration, oneOf, onlyKeys, show, text, whole } from '../core/options.ts'
import type { HandlerJob } from './handlerjob.ts'
import { leaseSpan, queueNames } from './options.ts'

/** What a handler is given besides its job. */
export interface HandlerContext {
  /** Aborts when the attempt's time is up, its lease is lost, it is cancelled, or the worker stops. */
  readonly signal: AbortSignal
}

/** Does the work of one kind of job. Returning acks, throwing nacks, unless the job was ended in a transaction. */
// biome-ignore lint/suspicious/noExplicitAny: a payload is what the adder put in; typed kinds give it its type.
export type HandlerFunction<Payload = any> = (job: HandlerJob<Payload>, context: HandlerContext) => unknown

/** A handler with its policies. */
// biome-ignore lint/suspicious/noExplicitAny: as above.
export interface HandlerSpec<Payload = any> {
  readonly run: HandlerFunction<Payload>
  /** `transaction`: a return without a committed ack is nacked with `ack_missing`. @default 'any' */
  readonly finish?: 'any' | 'transaction'
  /** Let so many `job.transaction` calls share one commit, a savepoint each. @default 1 */
  readonly group?: number
}

// biome-ignore lint/suspicious/noExplicitAny: as above.
export type Handler<Payload = any> = HandlerFunction<Payload> | HandlerSpec<Payload>

/** What a worker is made of. */
export interface WorkerOptions {
  /** By kind. Jobs of other kinds are left for workers that know them. */
  readonly handlers: Readonly<Record<string, Handler>>
  /** @default ['default'] */
  readonly queues?: readonly string[] | undefined
  /** How many handlers run at once. @default 10 */
  readonly concurrency?: number | undefined
  /**
   * The most jobs held ready beyond those that run, so that none waits for a round trip. The worker takes only what
   * it is likely to begin within a tenth of a second. @default 500
   */
  readonly prefetch?: number | undefined
  /** How long a claim holds without a renewal before another worker may take the job. @default 30_000 */
  readonly leaseMs?: number | string | undefined
  /** How often to look when nothing rings. @default 1_000 */
  readonly pollMs?: number | string | undefined
  /** Who this is, for people to see; it fences nothing. @default host name, process id and a few random characters */
  readonly workerId?: string | undefined
  /** How long a loop may go without progress before it is replaced. @default 30_000 */
  readonly watchdogMs?: number | string | undefined
}

export interface ResolvedWorkerOptions {
  readonly handlers: ReadonlyMap<string, Required<HandlerSpec>>
  readonly queues: readonly string[]
  readonly concurrency: number
  readonly prefetch: number
  readonly leaseMs: number
  readonly pollMs: number
  readonly workerId: string
  readonly watchdogMs: number
}

const keys = ['handlers', 'queues', 'concurrency', 'prefetch', 'leaseMs', 'pollMs', 'workerId', 'watchdogMs']

export function resolveWorkerOptions(options: WorkerOptions, own = false): ResolvedWorkerOptions {
  onlyKeys('worker', options, keys)
  const { queues = ['default'], concurrency = 10, prefetch = 500, leaseMs = 30_000, pollMs = 1_000 } = options
  const {
    workerId = `${hostname().slice(0, 100)}:${process.pid}:${createId().slice(-6)}`,
    watchdogMs = 30_000,
  } = options
  return Object.freeze({
    handlers: resolveHandlers(options.handlers),
    queues: queueNames('worker.queues', queues, own),
    concurrency: whole('worker.concurrency', concurrency, { min: 1, max: 100_000 }),
    prefetch: whole('worker.prefetch', prefetch, { max: 10_000 }),
    leaseMs: leaseSpan('worker.leaseMs', leaseMs),
    pollMs: duration('worker.pollMs', pollMs, { min: 10, max: 3_600_000 }),
    workerId: text('worker.workerId', workerId),
    watchdogMs: duration('worker.watchdogMs', watchdogMs, { min: 100, max: 2 ** 31 - 1 }),
  })
}

/** Own keys only, in a Map: a job of the kind `constructor` finds no handler that nobody wrote. */
function resolveHandlers(handlers: unknown): ReadonlyMap<string, Required<HandlerSpec>> {
  if (typeof handlers !== 'object' || handlers === null || Object.keys(handlers).length === 0) {
    throw new SignalboxError(
      'invalid_argument',
      `worker.handlers must be an object with a handler for each kind, such as { mail: async (job) => { … } }, not ${typeof handlers === 'object' && handlers !== null ? 'an empty one' : show(handlers)}.`,
    )
  }
  return new Map(
    Object.entries(handlers).map(([kind, handler]) => [
      text('a kind in worker.handlers', kind),
      resolveHandler(kind, handler),
    ]),
  )
}

function resolveHandler(kind: string, handler: unknown): Required<HandlerSpec> {
  const name = `worker.handlers.${kind}`
  if (typeof handler === 'function') return { run: handler as HandlerFunction, finish: 'any', group: 1 }
  if (typeof handler !== 'object' || handler === null) {
    throw new SignalboxError(
      'invalid_argument',
      `${name} must be a function, or { run, … }, not ${show(handler)}.`,
    )
  }
  onlyKeys(name, handler, ['run', 'finish', 'group'])
  const { run, finish = 'any', group = 1 } = handler as Partial<HandlerSpec>
  if (typeof run !== 'function') {
    throw new SignalboxError('invalid_argument', `${name}.run must be a function, not ${show(run)}.`)
  }
  return {
    run,
    finish: oneOf(`${name}.finish`, finish, ['any', 'transaction']),
    group: whole(`${name}.group`, group, { min: 1, max: 1_000 }),
  }
}
