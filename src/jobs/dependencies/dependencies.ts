import type { Loop } from '../../core/loop.ts'
import type { JobDependency } from '../job.ts'
import { unknownDependency } from '../job-errors.ts'
import type { JobStore, NewJob } from '../job-store.ts'
import { dependenciesTopic, type JobsParts, queueTopic } from '../jobs-parts.ts'
import { createDependencyResolver, wakeResolvers } from './dependency-resolver.ts'
import type { Neighbour } from './dependency-store.ts'
import { DependentJobStore } from './dependent-job-store.ts'

/** Dependencies as the public verbs use them. Without a dependency store, as over HTTP, the job store handles them. */
export interface JobDependencies {
  /** The store that verbs and workers use. */
  readonly store: JobStore
  /**
   * Checks that the jobs which these records depend on exist, or are added with them or in the same transaction. Throws
   * `invalid_argument`; `nameOf` gives the name of the record at that index for the message.
   */
  checkDependencies(records: readonly NewJob[], tx: unknown, nameOf: (at: number) => string): Promise<void>
  /** The jobs that a job depends on, and its dependents. */
  around(id: string): Promise<{
    readonly dependencies: readonly JobDependency[]
    readonly dependents: readonly JobDependency[]
  }>
  /** Removes dependencies of jobs that are gone. Returns how many. */
  prune(limit: number): Promise<number>
  /** Creates the loop that unblocks jobs; undefined where another process runs it. */
  readonly createResolver: (() => Loop) | undefined
}

/** How many dependencies and dependents are shown with a job. */
const shownNeighbours = 100
const alone = { dependencies: [], dependents: [] } as const

export function createJobDependencies({
  store: inner,
  dependencies: kept,
  notifier,
  resolvesDependencies = true,
}: JobsParts): JobDependencies {
  if (kept === undefined) {
    return {
      store: inner,
      checkDependencies: async () => undefined,
      around: async () => alone,
      prune: async () => 0,
      createResolver: undefined,
    }
  }
  const store = new DependentJobStore({
    ...{ store: inner, dependencies: kept.store, locks: kept.locks },
    onBlocked: () => notifier.wake(dependenciesTopic),
    onTouched: (ids) => wakeResolvers(notifier, ids),
    onUnlocked: (ids) => wakeResolvers(notifier, ids, true),
    onRoom: (queue) => notifier.wake(queueTopic(queue)),
  })
  return {
    store,
    async checkDependencies(records, tx, nameOf) {
      const blocked = records.filter(({ dependsOn }) => dependsOn)
      if (blocked.length === 0) return
      const own = new Set(records.map(({ id }) => id))
      const wanted = new Set(blocked.flatMap(({ dependsOn }) => dependsOn!.jobs).filter((id) => !own.has(id)))
      // Only the transaction sees the jobs that it added; but its snapshot may be too old to show those of others.
      if (tx !== undefined && wanted.size > 0)
        for (const id of await kept.store.seenIn(tx, [...wanted])) wanted.delete(id)
      if (wanted.size === 0) return
      const ids = [...wanted]
      const states = await kept.store.states(ids)
      const missing = ids.find((_, at) => states[at] === undefined)
      if (missing === undefined) return
      throw unknownDependency(
        nameOf(records.findIndex(({ dependsOn }) => dependsOn?.jobs.includes(missing))),
        missing,
      )
    },
    async around(id) {
      const { dependencies, dependents } = await kept.store.around(id, shownNeighbours)
      return { dependencies: dependencies.map(showNeighbour), dependents: dependents.map(showNeighbour) }
    },
    prune: (limit) => kept.store.prune(limit),
    createResolver: resolvesDependencies
      ? () => createDependencyResolver({ dependencies: kept.store, locks: kept.locks, store, notifier })
      : undefined,
  }
}

function showNeighbour({ id, state, isMet }: Neighbour): JobDependency {
  return { id, state: state ?? null, isMet }
}
