import type { Loop } from '../../core/loop.ts'
import type { JobDependency } from '../job.ts'
import { unknownDependency } from '../job-errors.ts'
import type { JobStore, NewJob } from '../job-store.ts'
import { gatesTopic, type JobsParts, queueTopic } from '../jobs-parts.ts'
import { createGatekeeper, tellGatekeepers } from './dependency-resolver.ts'
import type { Neighbour } from './dependency-store.ts'
import { DependentJobStore } from './dependent-job-store.ts'

/** Whatever jobs wait for, seen from the verbs of the room. Without a place to keep it, the store is trusted with it. */
export interface Gating {
  /** The store that verbs and workers use. */
  readonly store: JobStore
  /**
   * Jobs that are waited for must be there, or be added with them or in the same transaction. Throws
   * `invalid_argument`; `nameOf` says what the job at that place is called in it.
   */
  checkDependencies(records: readonly NewJob[], tx: unknown, nameOf: (at: number) => string): Promise<void>
  /** The jobs that a job depends on, and those that depend on it. */
  around(id: string): Promise<{
    readonly dependencies: readonly JobDependency[]
    readonly dependents: readonly JobDependency[]
  }>
  /** Forgets what is left of jobs that are gone; answers how much it was. */
  prune(limit: number): Promise<number>
  /** Lets jobs on; undefined where that is not done here. */
  readonly createKeeper: (() => Loop) | undefined
}

/** So many of the dependencies and dependents of a job are shown with it. */
const shownNeighbours = 100
const alone = { dependencies: [], dependents: [] } as const

export function createGating({ store: inner, gates, notifier, keepsGates = true }: JobsParts): Gating {
  if (gates === undefined) {
    return {
      store: inner,
      checkDependencies: async () => undefined,
      around: async () => alone,
      prune: async () => 0,
      createKeeper: undefined,
    }
  }
  const store = new DependentJobStore({
    ...{ store: inner, gates: gates.store, locks: gates.locks },
    onGated: () => notifier.wake(gatesTopic),
    onTouched: (ids) => tellGatekeepers(notifier, ids),
    onUnlocked: (ids) => tellGatekeepers(notifier, ids, true),
    onRoom: (queue) => notifier.wake(queueTopic(queue)),
  })
  return {
    store,
    async checkDependencies(records, tx, nameOf) {
      const gated = records.filter(({ gate }) => gate)
      if (gated.length === 0) return
      const own = new Set(records.map(({ id }) => id))
      const wanted = new Set(gated.flatMap(({ gate }) => gate!.dependencies).filter((id) => !own.has(id)))
      // Only the transaction sees what it has added; but its snapshot may be older than what others have.
      if (tx !== undefined && wanted.size > 0)
        for (const id of await gates.store.seenIn(tx, [...wanted])) wanted.delete(id)
      if (wanted.size === 0) return
      const ids = [...wanted]
      const states = await gates.store.states(ids)
      const missing = ids.find((_, at) => states[at] === undefined)
      if (missing === undefined) return
      throw unknownDependency(
        nameOf(records.findIndex(({ gate }) => gate?.dependencies.includes(missing))),
        missing,
      )
    },
    async around(id) {
      const { dependencies, dependents } = await gates.store.around(id, shownNeighbours)
      return { dependencies: dependencies.map(showNeighbour), dependents: dependents.map(showNeighbour) }
    },
    prune: (limit) => gates.store.prune(limit),
    createKeeper: keepsGates
      ? () => createGatekeeper({ gates: gates.store, locks: gates.locks, store, notifier })
      : undefined,
  }
}

function showNeighbour({ id, state, isMet }: Neighbour): JobDependency {
  return { id, state: state ?? null, isMet }
}
