import { invalidArgument, SignalboxError } from '../../core/errors.ts'
import type { Loop } from '../../core/loop.ts'
import { listOf, oneOf, onlyKeys, refuse, text } from '../../core/options.ts'
import { dependenciesTopic, type JobsParts, queueTopic } from '../api/jobs-api.ts'
import type { JobDependency, JobState } from '../job.ts'
import { unknownDependency } from '../job-errors.ts'
import type { JobStore, NewJob } from '../job-store.ts'
import { hintWaits } from '../waiting/job-waits.ts'
import { createDependencyResolver, wakeResolvers } from './dependency-resolver.ts'
import type { Neighbour, NewDependencies } from './dependency-store.ts'
import { createDependentJobStore } from './dependent-job-store.ts'

/** What happens to a job when one of its dependencies is dead, cancelled or gone. */
export type OnFailure = 'cancel' | 'run' | 'wait'

/** A lock: an operation on a resource. */
export interface JobLock {
  readonly operation: string
  readonly resource: string
}

/** Jobs that must complete first: their ids, in `addMany` also the `ref`s of other jobs in the same list. */
export type AfterOptions =
  | string
  | readonly string[]
  | {
      readonly jobs: string | readonly string[]
      /**
       * `cancel`: the job is cancelled too. `run`: it runs anyway. `wait`: it waits for a retry of the other. @default
       * 'cancel'
       */
      readonly onFailure?: OnFailure | undefined
    }

/** What a job can depend on. */
export interface DependencyOptions {
  readonly after?: AfterOptions | null | undefined
  readonly lock?: JobLock | null | undefined
}

/** The part of the dependencies that the job's meta text contains. */
export interface DependencyMeta {
  /** The job waited for other jobs. The dependency store knows which. */
  readonly after?: true
  readonly lock?: JobLock
  readonly onFailure?: OnFailure
}

const maxDependencies = 1_000
const policies = ['cancel', 'run', 'wait'] as const

/** Checks a job's dependencies. `dependsOn` is null if it has none. Throws `invalid_argument`. */
export function resolveDependencies(
  name: string,
  { after, lock }: DependencyOptions,
): { readonly dependsOn: NewDependencies | null; readonly meta: DependencyMeta } {
  const dependencies =
    after === undefined || after === null ? undefined : resolveAfter(`${name}.after`, after)
  const jobLock = lock === undefined || lock === null ? null : resolveLock(`${name}.lock`, lock)
  const ids = dependencies?.ids ?? []
  if (ids.length === 0 && jobLock === null) return nothing
  const onFailure = ids.length === 0 ? 'cancel' : dependencies!.onFailure
  return {
    dependsOn: { jobs: ids, lock: jobLock },
    meta: {
      ...(ids.length > 0 && { after: true }),
      ...(jobLock && { lock: jobLock }),
      ...(onFailure === 'cancel' ? {} : { onFailure }),
    },
  }
}

const nothing = { dependsOn: null, meta: {} } as const

function resolveAfter(name: string, after: unknown): { ids: readonly string[]; onFailure: OnFailure } {
  if (typeof after !== 'object' || after === null || Array.isArray(after))
    return { ids: namesOf(name, after), onFailure: 'cancel' }
  onlyKeys(name, after, ['jobs', 'onFailure'])
  const { jobs, onFailure = 'cancel' } = after as { jobs?: unknown; onFailure?: unknown }
  return { ids: namesOf(`${name}.jobs`, jobs), onFailure: oneOf(`${name}.onFailure`, onFailure, policies) }
}

function namesOf(name: string, value: unknown): readonly string[] {
  if (typeof value === 'string') return [text(name, value)]
  if (!Array.isArray(value)) refuse(name, `the id of a job, or a list of up to ${maxDependencies} ids`, value)
  return listOf(name, value, 'ids', { max: maxDependencies }, text)
}

function resolveLock(name: string, value: unknown): JobLock {
  if (typeof value !== 'object' || value === null)
    refuse(name, "a lock such as { operation: 'pull', resource: 'nginx:1.29' }", value)
  onlyKeys(name, value, ['operation', 'resource'])
  const { operation, resource } = value as { operation?: unknown; resource?: unknown }
  return {
    operation: text(`${name}.operation`, operation),
    resource: text(`${name}.resource`, resource),
  }
}

/**
 * Reindexes refs by ids. A job of a list may have a `ref`, by which other jobs of the list depend on it; any other name
 * in `after` is the id of an earlier job. Throws `invalid_argument` for a ref that is used twice, and for a cycle.
 */
export function resolveRefs(
  name: string,
  refs: readonly (string | undefined)[],
  records: readonly NewJob[],
): readonly NewJob[] {
  if (refs.every((ref) => ref === undefined)) return records
  const indexes = new Map<string, number>()
  for (const [at, ref] of refs.entries()) {
    if (ref === undefined) continue
    text(`${name}[${at}].ref`, ref)
    const before = indexes.get(ref)
    if (before !== undefined) throw usedTwice(name, ref, before, at)
    indexes.set(ref, at)
  }
  refuseCycles(name, indexes, records)
  return records.map((record) => {
    if (!record.dependsOn || record.dependsOn.jobs.length === 0) return record
    const jobs = record.dependsOn.jobs.map((dependency) => {
      const index = indexes.get(dependency)
      return index === undefined ? dependency : records[index]!.id
    })
    return { ...record, dependsOn: { ...record.dependsOn, jobs: [...new Set(jobs)] } }
  })
}

/** Walks the refs without recursion: a list may be a chain of thousands. */
function refuseCycles(name: string, indexes: ReadonlyMap<string, number>, records: readonly NewJob[]): void {
  const firstOf = writtenIndexes(records)
  const waitsFor = (at: number) =>
    (records[at]!.dependsOn?.jobs ?? []).flatMap((dependency) => {
      const index = indexes.get(dependency)
      return index === undefined ? [] : [firstOf[index]!]
    })
  const done = new Set<number>()
  for (const start of records.keys()) {
    const path: { readonly at: number; readonly rest: number[] }[] = []
    const onPath = new Set<number>()
    const enter = (at: number) => {
      path.push({ at, rest: waitsFor(at) })
      onPath.add(at)
    }
    if (!done.has(start)) enter(start)
    while (path.length > 0) {
      const { at, rest } = path.at(-1)!
      const next = rest.pop()
      if (next === undefined) {
        path.pop()
        onPath.delete(at)
        done.add(at)
      } else if (onPath.has(next)) {
        const ring = path.slice(path.findIndex((step) => step.at === next)).map((step) => step.at)
        throw cycle(name, [...ring, next], indexes)
      } else if (!done.has(next)) enter(next)
    }
  }
}

/** For each job, the index of the job that the store writes for it: the first of those with the same unique key. */
function writtenIndexes(records: readonly NewJob[]): readonly number[] {
  const first = new Map<string, number>()
  return records.map(({ queue, uniqueKey }, at) => {
    if (uniqueKey === null) return at
    const key = JSON.stringify([queue, uniqueKey])
    if (!first.has(key)) first.set(key, at)
    return first.get(key)!
  })
}

const shownRing = 10

function cycle(name: string, ring: readonly number[], indexes: ReadonlyMap<string, number>): SignalboxError {
  const nameOf = new Map([...indexes].map(([ref, at]) => [at, ref]))
  const names = ring.map((at) => `"${nameOf.get(at)}"`)
  const shown = names.length > shownRing ? [...names.slice(0, shownRing), '…'] : names
  return new SignalboxError(
    'invalid_argument',
    `${name}[${ring[0]}].after has a cycle, so none of these jobs could ever start: ${shown.join(' waits for ')}.`,
    { details: { option: `${name}[${ring[0]}].after`, ring } },
  )
}

function usedTwice(name: string, ref: string, first: number, second: number): SignalboxError {
  return invalidArgument(
    `${name}[${second}].ref is "${ref}", as is ${name}[${first}].ref; each ref of a list must be different.`,
    `${name}[${second}].ref`,
  )
}

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
  /** The present states of these jobs, in order; undefined: no such job. */
  states(ids: readonly string[]): Promise<readonly (JobState | undefined)[]>
  /** Removes dependencies of jobs that are gone. Returns their number. */
  prune(limit: number): Promise<number>
  /** Creates the loop that unblocks jobs; undefined where another process runs it. */
  readonly createResolver: (() => Loop) | undefined
}

/** The most dependencies, and the most dependents, that a job shows. */
const shownNeighbours = 100
const noNeighbours = { dependencies: [], dependents: [] } as const

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
      around: async () => noNeighbours,
      states: (ids) => Promise.all(ids.map(async (id) => (await inner.find(id))?.state)),
      prune: async () => 0,
      createResolver: undefined,
    }
  }
  const store = createDependentJobStore({
    ...{ store: inner, dependencies: kept.store, locks: kept.locks },
    onBlocked: () => notifier.wake(dependenciesTopic),
    onTouched(ids) {
      wakeResolvers(notifier, ids)
      hintWaits(notifier, ids)
    },
    onUnlocked: (ids) => wakeResolvers(notifier, ids, true),
    onSlotFreed: (queue) => notifier.wake(queueTopic(queue)),
  })
  return {
    store,
    async checkDependencies(records, tx, nameOf) {
      const blocked = records.filter(({ dependsOn }) => dependsOn)
      if (blocked.length === 0) return
      const own = new Set(records.map(({ id }) => id))
      const wanted = new Set(blocked.flatMap(({ dependsOn }) => dependsOn!.jobs).filter((id) => !own.has(id)))
      // Only the transaction sees the jobs that it added. Its snapshot may be too old for jobs of others: `states`
      // finds these.
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
    states: (ids) => kept.store.states(ids),
    prune: (limit) => kept.store.prune(limit),
    createResolver: resolvesDependencies
      ? () => createDependencyResolver({ dependencies: kept.store, locks: kept.locks, store, notifier })
      : undefined,
  }
}

function showNeighbour({ id, state, isMet }: Neighbour): JobDependency {
  return { id, state: state ?? null, isMet }
}
