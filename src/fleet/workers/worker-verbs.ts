import type { Duration } from '../../core/duration.ts'
import { SignalboxError } from '../../core/errors.ts'
import { duration, oneOf, onlyKeys, text, whole } from '../../core/options.ts'
import {
  type FleetWorker,
  type FleetWorkerState,
  type FoundFleetWorker,
  fleetWorkerStates,
  showFoundWorker,
  showWorker,
  type WantedMode,
  workersTopic,
} from './fleet-worker.ts'
import type { WorkerStore } from './worker-store.ts'

/** Lists workers and controls them. */
export interface WorkerVerbs {
  /**
   * Returns a page of the workers of all processes, by id. Workers stay listed as gone for a day. `cursor` is null at
   * the end.
   */
  workers(options?: ListWorkersOptions): Promise<WorkersPage>
  /** One worker, with the JSON Schemas of its kinds. */
  findWorker(id: string): Promise<FoundFleetWorker | undefined>
  /**
   * Makes a worker finish its jobs and claim no more until it is resumed. The worker follows within two seconds, on any
   * host; on Postgres within ten, if a wake-up is lost. Throws `not_found`, and `conflict` if the worker is gone.
   */
  quietWorker(id: string): Promise<FleetWorker>
  /** Lets a quiet worker claim again. Throws `not_found`; `conflict` if it is gone or was asked to stop. */
  resumeWorker(id: string): Promise<FleetWorker>
  /**
   * Stops a worker like its own `stop`: it claims no more, has `graceMs` to finish its jobs, and hands back the rest,
   * which uses up no attempt. Throws `not_found`, and `conflict` if the worker is gone.
   */
  stopWorker(id: string, options?: StopWorkerOptions): Promise<FleetWorker>
}

/** Which workers to list. */
export interface ListWorkersOptions {
  /** Only workers that take jobs of this queue. */
  readonly queue?: string | undefined
  /** Only workers that know this kind. */
  readonly kind?: string | undefined
  readonly state?: FleetWorkerState | undefined
  readonly host?: string | undefined
  readonly release?: string | undefined
  /** @default 50 */
  readonly limit?: number | undefined
  readonly cursor?: string | null | undefined
}

export interface StopWorkerOptions {
  /** The time that its running jobs have to end. @default 10_000 */
  readonly graceMs?: Duration | undefined
}

export interface WorkersPage {
  readonly items: readonly FleetWorker[]
  readonly cursor: string | null
  /** The store's clock at the read: ages count from here. */
  readonly at: number
}

export interface WorkerVerbsParts {
  readonly store: WorkerStore
  readonly notifier: { wake(topic: string): void }
}

/** The rows of one read with a filter, which leaves some out. */
const pageSize = 500

export function createWorkerVerbs({ store, notifier }: WorkerVerbsParts): WorkerVerbs {
  async function find(id: string): Promise<FoundFleetWorker | undefined> {
    const found = await store.find(id)
    return found && showFoundWorker(found.worker, found.now)
  }

  async function want(id: string, wanted: WantedMode, graceMs: number | null): Promise<FleetWorker> {
    const before = await find(id)
    if (before === undefined) throw noWorker(id)
    if (wanted !== 'stop' && before.wanted === 'stop') throw isStopping(id)
    if (before.state === 'gone' || !(await store.want(id, wanted, graceMs))) throw isGone(id)
    notifier.wake(workersTopic)
    const { schemas: _, at: __, ...worker } = before
    return { ...worker, wanted }
  }

  return {
    async workers(options = {}) {
      const { limit, after, fits } = resolveList(options)
      const items: FleetWorker[] = []
      let from = after
      for (;;) {
        const asked = Math.min(pageSize, fits === undefined ? limit - items.length + 1 : pageSize)
        const { workers, now } = await store.list({ limit: asked, after: from })
        for (const record of workers) {
          const worker = showWorker(record, now)
          if (fits !== undefined && !fits(worker)) continue
          if (items.length === limit) return { items, cursor: encodeCursor(items.at(-1)!.id), at: now }
          items.push(worker)
        }
        if (workers.length < asked) return { items, cursor: null, at: now }
        from = workers.at(-1)!.id
      }
    },
    findWorker: async (id) => find(text('findWorker.id', id)),
    quietWorker: async (id) => want(text('quietWorker.id', id), 'quiet', null),
    resumeWorker: async (id) => want(text('resumeWorker.id', id), 'run', null),
    async stopWorker(id, options = {}) {
      onlyKeys('stopWorker', options, ['graceMs'])
      const graceMs = duration('stopWorker.graceMs', options.graceMs ?? 10_000, { max: 86_400_000 })
      return want(text('stopWorker.id', id), 'stop', graceMs)
    },
  }
}

interface ResolvedList {
  readonly limit: number
  readonly after: string | undefined
  readonly fits: ((worker: FleetWorker) => boolean) | undefined
}

function resolveList(options: ListWorkersOptions): ResolvedList {
  onlyKeys('workers', options, ['queue', 'kind', 'state', 'host', 'release', 'limit', 'cursor'])
  const { cursor, limit = 50 } = options
  const given = (key: 'queue' | 'kind' | 'host' | 'release') =>
    options[key] === undefined ? undefined : text(`workers.${key}`, options[key])
  const [queue, kind, host, release] = [given('queue'), given('kind'), given('host'), given('release')]
  const state =
    options.state === undefined ? undefined : oneOf('workers.state', options.state, fleetWorkerStates)
  const filters = [queue, kind, host, release, state]
  return {
    limit: whole('workers.limit', limit, { min: 1, max: 500 }),
    after: cursor === undefined || cursor === null ? undefined : decodeCursor(cursor),
    fits: filters.every((filter) => filter === undefined)
      ? undefined
      : (worker) =>
          (queue === undefined || worker.queues.includes(queue)) &&
          (kind === undefined || worker.kinds === null || worker.kinds.includes(kind)) &&
          (host === undefined || worker.host === host) &&
          (release === undefined || worker.release === release) &&
          (state === undefined || worker.state === state),
  }
}

function encodeCursor(id: string): string {
  return Buffer.from(id).toString('base64url')
}

function decodeCursor(cursor: unknown): string {
  const id = /^[\w-]+$/.test(String(cursor)) ? Buffer.from(String(cursor), 'base64url').toString() : ''
  if (id !== '') return id
  throw new SignalboxError('invalid_argument', 'workers.cursor must be the cursor of a previous page.', {
    details: { option: 'workers.cursor' },
  })
}

function noWorker(id: string): SignalboxError {
  return new SignalboxError(
    'not_found',
    `There is no worker "${id}": it stopped, it never started, or it does not keep a row.`,
  )
}

function isGone(id: string): SignalboxError {
  return new SignalboxError(
    'conflict',
    `Worker "${id}" is gone: its lease expired, so it cannot follow. Other workers take its jobs.`,
  )
}

function isStopping(id: string): SignalboxError {
  return new SignalboxError(
    'conflict',
    `Worker "${id}" was asked to stop and cannot be resumed. Start a new worker.`,
  )
}
