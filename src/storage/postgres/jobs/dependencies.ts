import type {
  BlockAgainRequest,
  Dependency,
  DependencyQuery,
  DependencyStore,
  Fence,
  JobState,
  LockDependency,
  Neighbour,
  Neighbours,
  TakenFence,
  TendRequest,
  Unblocked,
} from '../../../jobs/index.ts'
import { Reclaimer } from '../claim/reclaim.ts'
import { inCallers, requireTransaction } from '../connection/caller-transaction.ts'
import type { Connections, Statement } from '../connection/connection.ts'
import type { GateStatements } from './dependency-statements.ts'
import type { Space } from './namespace-memory.ts'

export { type GateStatements, gateStatements } from './dependency-statements.ts'

/**
 * What jobs wait for, on Postgres. Each call is one statement; those that let jobs on or hold them back are functions,
 * whose steps see what was committed while they waited for a row (migrations/baseline-job-details.ts).
 */
export class PostgresDependencies implements DependencyStore {
  readonly #connections: Connections
  readonly #space: Space
  readonly #statements: GateStatements
  readonly #reclaimer: Reclaimer

  constructor(connections: Connections, space: Space, statements: GateStatements) {
    this.#connections = connections
    this.#space = space
    this.#statements = statements
    this.#reclaimer = new Reclaimer(connections, space)
  }

  async states(ids: readonly string[]): Promise<readonly (JobState | undefined)[]> {
    const standing = await this.#standing(ids)
    return ids.map((id) => standing.get(id)?.state)
  }

  async seenIn(tx: unknown, ids: readonly string[]): Promise<readonly string[]> {
    const client = await requireTransaction(tx)
    // Without a name: what is prepared on a caller's connection is the caller's business.
    const { rows } = await inCallers(() =>
      client.query<StandingRow>(this.#statements.anywhere.text, [this.#space.namespace, ids]),
    )
    return rows.map(({ id }) => id)
  }

  async unmet({ of, after, limit }: DependencyQuery): Promise<readonly Dependency[]> {
    const { jobId = '', dependencyId = '' } = after ?? {}
    const rows =
      of === undefined
        ? await this.#run<DependencyRow>(this.#statements.unmet, [jobId, dependencyId, limit])
        : await this.#run<DependencyRow>(this.#statements.unmetOf, [of, limit])
    return rows.map((row) => ({ jobId: row.job_id, dependencyId: row.dependency_id }))
  }

  async meet(dependencies: readonly Dependency[]): Promise<readonly Unblocked[]> {
    if (dependencies.length === 0) return []
    const rows = await this.#run<{ job_id: string; queue: string; becomes: Unblocked['to'] }>(
      this.#statements.meet,
      [dependencies.map(({ jobId }) => jobId), dependencies.map(({ dependencyId }) => dependencyId)],
    )
    if (rows.some(({ becomes }) => becomes === 'ready')) this.#space.cursors.forget()
    return rows.map((row) => ({ jobId: row.job_id, queue: row.queue, to: row.becomes }))
  }

  async fail(ends: readonly { jobId: string; error: string }[]): Promise<readonly string[]> {
    if (ends.length === 0) return []
    const errors = new Map(ends.map(({ jobId, error }) => [jobId, error]))
    const rows = await this.#run<{ id: string }>(this.#statements.fail, [
      [...errors.keys()],
      [...errors.values()],
    ])
    return rows.map(({ id }) => id)
  }

  async around(id: string, limit: number): Promise<Neighbours> {
    const rows = await this.#run<{ id: string; is_met: boolean; is_dependency: boolean }>(
      this.#statements.around,
      [id, limit],
    )
    const standing = await this.#standing(rows.map((row) => row.id))
    const side = (isDependency: boolean): readonly Neighbour[] =>
      rows
        .filter((row) => row.is_dependency === isDependency)
        .map((row) => ({ id: row.id, state: standing.get(row.id)?.state, isMet: row.is_met }))
    return { dependencies: side(true), dependents: side(false) }
  }

  async tend({ limit, tendMs, of }: TendRequest): Promise<readonly LockDependency[]> {
    const rows =
      of === undefined
        ? await this.#run<LockRow>(this.#statements.tend, [limit, tendMs])
        : await this.#run<LockRow>(this.#statements.tendOf, [limit, tendMs, of])
    const standing = await this.#standing(rows.map((row) => row.job_id))
    return rows.map((row) => {
      const job = standing.get(row.job_id)
      return {
        jobId: row.job_id,
        operation: row.operation,
        resource: row.resource,
        askNo: Number(row.ask_no),
        fence: row.fence === null ? null : Number(row.fence),
        isTaken: row.fence !== null && row.fence === row.taken_fence,
        state: job?.state,
        dueInMs: Number(job?.due_in_ms ?? 0),
      }
    })
  }

  async hasCalled(): Promise<boolean> {
    return (await this.#run(this.#statements.called, [])).length > 0
  }

  async grant({
    jobId,
    askNo,
    fence,
  }: {
    jobId: string
    askNo: number
    fence: number
  }): Promise<string | undefined> {
    const [row] = await this.#run<{ queue: string | null }>(this.#statements.grant, [jobId, askNo, fence])
    const queue = row!.queue ?? undefined
    if (queue !== undefined) this.#space.cursors.forget()
    return queue
  }

  async blockAgain({ jobId, askNo, fence }: BlockAgainRequest): Promise<boolean> {
    // A job whose lease ran out is ready, but not yet where it can be held back.
    const { ready } = await this.#reclaimer.reclaim(manyJobs)
    if (ready > 0) this.#space.cursors.forget()
    const [row] = await this.#run<{ shut: boolean }>(this.#statements.blockAgain, [
      ...[jobId, askNo, fence === undefined, fence ?? null],
    ])
    return row!.shut
  }

  async fences(ids: readonly string[]): Promise<readonly (Fence | undefined)[]> {
    if (ids.length === 0) return []
    const rows = await this.#run<FenceRow>(this.#statements.fences, [ids])
    const fences = new Map(rows.map((row) => [row.job_id, fenceOf(row)]))
    return ids.map((id) => fences.get(id))
  }

  async take(ids: readonly string[]): Promise<readonly (TakenFence | undefined)[]> {
    if (ids.length === 0) return []
    const rows = await this.#run<FenceRow>(this.#statements.take, [ids])
    const taken = new Map(rows.map((row) => [row.job_id, { ...fenceOf(row), isTaken: false }]))
    // Most have a fence of their own. What was not taken now has none, or was taken before.
    const others = ids.filter((id) => !taken.has(id))
    for (const [at, known] of (await this.fences(others)).entries()) {
      if (known !== undefined) taken.set(others[at]!, { ...known, isTaken: known.fence !== null })
    }
    return ids.map((id) => taken.get(id))
  }

  async rest(ids: readonly string[]): Promise<void> {
    if (ids.length > 0) await this.#run(this.#statements.rest, [ids])
  }

  async prune(limit: number): Promise<number> {
    const [dependencies] = await this.#run<{ count: number }>(this.#statements.pruneDependencies, [limit])
    const left = limit - dependencies!.count
    if (left <= 0) return dependencies!.count
    const [locks] = await this.#run<{ count: number }>(this.#statements.pruneLocks, [left])
    return dependencies!.count + locks!.count
  }

  /** Where these jobs stand, as `find` would tell it. Most are not running, and looking into leases costs more. */
  async #standing(ids: readonly string[]): Promise<ReadonlyMap<string, StandingRow>> {
    if (ids.length === 0) return new Map()
    const resting = await this.#run<StandingRow>(this.#statements.resting, [ids])
    const standing = new Map(resting.map((row) => [row.id, row]))
    const others = ids.filter((id) => !standing.has(id))
    if (others.length === 0) return standing
    for (const row of await this.#run<StandingRow>(this.#statements.anywhere, [others])) {
      standing.set(row.id, row)
    }
    return standing
  }

  async #run<Row extends Record<string, unknown>>(
    statement: Statement,
    values: readonly unknown[],
  ): Promise<readonly Row[]> {
    const { rows } = await this.#connections.run<Row>(statement, [this.#space.namespace, ...values])
    return rows
  }
}

const manyJobs = 100_000

interface DependencyRow extends Record<string, unknown> {
  readonly job_id: string
  readonly dependency_id: string
}

interface FenceRow extends Record<string, unknown> {
  readonly job_id: string
  readonly ask_no: string
  readonly fence: string | null
}

interface LockRow extends FenceRow {
  readonly operation: string
  readonly resource: string
  readonly taken_fence: string | null
}

function fenceOf({ ask_no: askNo, fence }: FenceRow): Fence {
  return { askNo: Number(askNo), fence: fence === null ? null : Number(fence) }
}

interface StandingRow extends Record<string, unknown> {
  readonly id: string
  readonly state: JobState
  readonly due_in_ms: string
}
