import type {
  NewWorker,
  ReadyKinds,
  WantedMode,
  WorkerPage,
  WorkerRecord,
  WorkerRef,
  WorkerRenewal,
  WorkerStanding,
  WorkerStore,
} from '../../fleet/workers/index.ts'
import type { JobStore } from '../../jobs/index.ts'

/** The rows of workers of one namespace. */
export class MemoryWorkers implements WorkerStore {
  readonly #now: () => number
  readonly #jobs: Pick<JobStore, 'list'>
  readonly #rows = new Map<string, Row>()

  constructor(now: () => number, jobs: Pick<JobStore, 'list'>) {
    this.#now = now
    this.#jobs = jobs
  }

  /** The release of the worker with this id that ran at this time. */
  releaseAt(id: string | null, at: number | null): string | null {
    const record = id === null ? undefined : this.#rows.get(id)?.record
    return record && at !== null && record.startedAt <= at ? record.release : null
  }

  async join(workers: readonly NewWorker[], leaseMs: number): Promise<readonly boolean[]> {
    return workers.map((worker) => {
      const now = this.#now()
      const before = this.#rows.get(worker.id)
      if (before !== undefined && !mayReplace(before, worker, now)) return false
      const {
        session,
        boot,
        ageMs,
        mode: _,
        running: __,
        runningCount: ___,
        ...facts
      } = structuredClone(worker)
      // If a program claims from several servers, each of them writes the row.
      const isHttp = worker.via === 'http' && before?.record.via === 'http'
      const shared = isHttp && before.record.leaseEndsAt > now ? before : undefined
      this.#rows.set(worker.id, {
        ...{ session, boot, graceMs: shared?.graceMs ?? null },
        record: {
          ...{ ...facts, ...stateOf(worker, now, leaseMs) },
          startedAt: shared?.record.startedAt ?? now - ageMs,
          wanted: shared?.record.wanted ?? 'run',
        },
      })
      return true
    })
  }

  async renew(renewals: readonly WorkerRenewal[], leaseMs: number): Promise<readonly WorkerStanding[]> {
    for (const renewal of renewals) {
      const row = this.#rows.get(renewal.id)
      if (row?.session !== renewal.session) continue
      row.record = { ...row.record, ...stateOf(renewal, this.#now(), leaseMs) }
    }
    return this.wanted(renewals)
  }

  async wanted(workers: readonly WorkerRef[]): Promise<readonly WorkerStanding[]> {
    return workers.map(({ id, session }): WorkerStanding => {
      const row = this.#rows.get(id)
      if (row === undefined) return { status: 'missing' }
      if (row.session !== session) return { status: 'taken' }
      return { status: 'here', wanted: row.record.wanted, graceMs: row.graceMs }
    })
  }

  async leave(workers: readonly WorkerRef[]): Promise<void> {
    for (const { id, session } of workers) if (this.#rows.get(id)?.session === session) this.#rows.delete(id)
  }

  async list({ limit, after }: { limit: number; after?: string | undefined }): Promise<WorkerPage> {
    const records = [...this.#rows.values()]
      .map(({ record }) => record)
      .filter(({ id }) => after === undefined || id > after)
      .sort((a, b) => (a.id < b.id ? -1 : 1))
      .slice(0, limit)
    return {
      workers: records.map((record) => structuredClone({ ...record, schemas: {} })),
      now: this.#now(),
    }
  }

  async find(id: string): ReturnType<WorkerStore['find']> {
    const row = this.#rows.get(id)
    return row && { worker: structuredClone(row.record), now: this.#now() }
  }

  async want(id: string, wanted: WantedMode, graceMs: number | null): Promise<boolean> {
    const row = this.#rows.get(id)
    if (row === undefined || row.record.leaseEndsAt <= this.#now()) return false
    row.record = { ...row.record, wanted }
    row.graceMs = graceMs
    return true
  }

  async readyKinds(queue: string): Promise<ReadyKinds> {
    const jobs = await this.#jobs.list({ queue, state: 'ready', limit: Number.MAX_SAFE_INTEGER })
    const byKind = Map.groupBy(jobs, ({ kind }) => kind)
    const kinds = Array.from(byKind, ([kind, of]) => ({
      ...{ kind, count: of.length, oldestAt: Math.min(...of.map(({ runAt }) => runAt)) },
    }))
    return { kinds, now: this.#now() }
  }

  async prune({ olderThanMs, limit }: { olderThanMs: number; limit: number }): Promise<number> {
    const cutoff = this.#now() - olderThanMs
    const old = [...this.#rows.values()].filter(({ record }) => record.leaseEndsAt < cutoff).slice(0, limit)
    for (const { record } of old) this.#rows.delete(record.id)
    return old.length
  }
}

interface Row {
  readonly session: string
  readonly boot: string
  graceMs: number | null
  record: WorkerRecord
}

function mayReplace({ session, boot, record }: Row, worker: NewWorker, now: number): boolean {
  if (session === worker.session || record.leaseEndsAt <= now) return true
  if (record.via === 'http' && worker.via !== 'http') return true
  const isSamePlace = record.host !== null && record.host === worker.host && record.pid === worker.pid
  return isSamePlace && record.pid !== null && boot !== worker.boot
}

function stateOf({ mode, running, runningCount }: WorkerRenewal, now: number, leaseMs: number) {
  return {
    ...{ mode, runningCount, seenAt: now, leaseEndsAt: now + leaseMs },
    running: running.map(({ id, kind, ms }) => ({ id, kind, since: now - ms })),
  }
}
