import { patientClock } from '../../core/clock.ts'
import { createLoop, type Loop } from '../../core/loop.ts'
import { createAlarm, createNotifier } from '../../core/notifier.ts'
import { dependenciesTopic, type JobsNotifier, queueTopic } from '../api/jobs-api.ts'
import type { JobStore } from '../job-store.ts'
import type { Dependency, DependencyStore, LockDependency } from './dependency-store.ts'
import type { JobLocks } from './job-locks.ts'
import { type LockWorkParts, tendLock, tendMs, tendPage } from './job-locks.ts'
import {
  DependencyWalk,
  type JudgeParts,
  judgeDependenciesFrom,
  judgeDependenciesOf,
} from './judge-dependencies.ts'

export interface DependencyResolverParts {
  readonly dependencies: DependencyStore
  readonly store: Pick<JobStore, 'find'>
  readonly locks: JobLocks
  readonly notifier: JobsNotifier
}

/**
 * Unblocks all jobs that may run now, in one pass. Returns how many jobs it checked. For tests that drive the clock.
 */
export async function resolveOnce({
  dependencies,
  store,
  locks,
  notifier,
}: DependencyResolverParts): Promise<number> {
  const onReady = (queue: string) => notifier.wake(queueTopic(queue))
  const next: string[] = []
  const onNext = (jobId: string) => void next.push(jobId)
  const judging: JudgeParts = { dependencies, store, onReady, onLockNeeded: onNext }
  let seen = 0
  for (let after: Dependency | undefined; ; ) {
    const page = await judgeDependenciesFrom(judging, after)
    seen += page.count
    after = page.next
    if (after === undefined) break
  }
  const work: LockWorkParts = { dependencies, locks, onReady, onNext, onLater: () => undefined }
  // The first round requests locks for the jobs unblocked above; later rounds serve the next waiters after a release.
  for (let of: string[] | undefined; of === undefined || of.length > 0; of = next.splice(0)) {
    const page = await dependencies.tend({ ...(of && { of }), limit: tendPage, tendMs: 0 })
    for (const lock of page) await tendLock(work, lock)
    seen += page.length
  }
  return seen
}

/** The resolvers of this process by notifier, so that a local wake-up can carry ids. */
const resolvers = new WeakMap<JobsNotifier, Set<Resolver>>()

/**
 * Wakes the resolvers of this process: these jobs ended, or must wait again. `haveLock`: the jobs have a lock, or are
 * next for one. Then, without a local resolver, a wake-up goes to the other processes.
 */
export function wakeResolvers(notifier: JobsNotifier, jobIds: readonly string[], haveLock = false): void {
  const here = resolvers.get(notifier)
  for (const resolver of here ?? []) resolver.touched(jobIds, haveLock)
  if (haveLock && !here?.size) notifier.wake(dependenciesTopic)
}

interface Resolver {
  /** These jobs ended, or must wait again: their dependents may be unblocked. */
  touched(jobIds: readonly string[], haveLock: boolean): void
}

const idleMs = 5_000
const busyMs = 1_000
/** A resolver drops further ids: the walk over all dependencies finds them. */
const maxTouched = 10_000
/** If this resolver did not tend a job for this long, another resolver tends it and listens for it. */
const listenMs = 5 * tendMs

/**
 * Unblocks jobs that wait for other jobs or for a lock. Any number of resolvers may run, in any number of processes. A
 * resolver acts at once on local wake-ups (a job ended here, a wait queue moved). While any job is blocked, it also
 * polls all dependencies once a second; otherwise it checks every 5 s for a blocked job. So a missed wake-up delays a
 * job, but never loses it.
 */
export function createDependencyResolver(parts: DependencyResolverParts): Loop {
  const { dependencies, locks, notifier } = parts
  const own = createNotifier()
  const alarm = createAlarm(() => own.wake())
  const touched = new Set<string>()
  const listened = new Map<string, ListenedRequest>()
  const later = new Map<string, number>()
  let pollsAt = 0
  /** Whether jobs may be blocked. If not, the resolver ignores jobs that end. */
  let isBusy = true

  const onReady = (queue: string) => notifier.wake(queueTopic(queue))
  const onNext = (jobId: string) => {
    if (touched.size < maxTouched) touched.add(jobId)
    own.wake()
  }
  /** Only for jobs that are due before the next poll. */
  const onLater = (jobId: string, inMs: number) => {
    if (inMs > idleMs || later.size >= tendPage) return
    later.set(jobId, performance.now() + inMs)
    alarm.set(inMs)
  }
  const judging: JudgeParts = { dependencies, store: parts.store, onReady, onLockNeeded: onNext }
  const walk = new DependencyWalk((after) => judgeDependenciesFrom(judging, after))
  const work: LockWorkParts = { dependencies, locks, onReady, onNext, onLater }

  const unlisten = notifier.listen([dependenciesTopic], () => {
    isBusy = true
    walk.expect()
    own.wake()
  })

  const loop = createLoop({
    name: 'jobs.dependencies',
    idleMs,
    notifier: own,
    clock: patientClock,
    async step({ signal, progress }) {
      const now = performance.now()
      for (const [jobId, at] of later) if (at <= now && later.delete(jobId)) touched.add(jobId)
      const woken = [...touched]
      touched.clear()
      // One statement while no job is blocked.
      if (!isBusy && woken.length === 0 && !(await dependencies.hasBlocked())) return 'idle'
      for (const [jobId, { since }] of listened) if (now - since > listenMs) stopListening(jobId)
      let seen = 0
      for (let at = 0; at < woken.length && !signal.aborted; at += tendPage) {
        const of = woken.slice(at, at + tendPage)
        seen += await judgeDependenciesOf(judging, of)
        seen += await tend(of, signal, progress)
      }
      seen += await tend(undefined, signal, progress)
      await walk.step()
      // This step did not see jobs that any resolver tended a moment ago, but they are still blocked.
      isBusy = seen > 0 || listened.size > 0 || walk.hasFound || (await dependencies.hasBlocked())
      if (touched.size > 0 || walk.isUnderWay) return 'more'
      if (isBusy) pollSoon()
      return 'idle'
    },
  })
  loop.events.on('stopped', () => {
    unlisten()
    alarm.clear()
    for (const { forget } of listened.values()) forget()
    listened.clear()
    known.delete(resolver)
  })
  const resolver: Resolver = {
    touched(jobIds, haveLock) {
      if (!isBusy && !haveLock) return
      for (const jobId of jobIds) if (touched.size < maxTouched) touched.add(jobId)
      if (touched.size > 0) own.wake()
    },
  }
  const known = resolvers.get(notifier) ?? new Set()
  resolvers.set(notifier, known.add(resolver))
  return loop

  /** Sets the alarm, unless a poll is planned already. */
  function pollSoon(): void {
    const now = performance.now()
    if (pollsAt > now) return
    pollsAt = now + busyMs
    alarm.set(busyMs)
  }

  /** Tends a page of jobs. Throws the first error after it tended all others. */
  async function tend(
    of: readonly string[] | undefined,
    signal: AbortSignal,
    progress: () => void,
  ): Promise<number> {
    const errors: unknown[] = []
    const page = await dependencies.tend({ ...(of && { of }), limit: tendPage, tendMs })
    for (const lock of page) {
      if (signal.aborted) break
      // Listen before asking: otherwise a grant between the answer and the listening waits for the next poll.
      if (isRequestDue(lock)) listenFor(lock)
      try {
        if ((await tendLock(work, lock)) !== 'waits') stopListening(lock.jobId)
      } catch (error) {
        errors.push(error)
      }
      progress()
    }
    // A job that is missing from the page was unblocked by another resolver.
    if (of !== undefined && !signal.aborted) {
      const there = new Set(page.map(({ jobId }) => jobId))
      for (const jobId of of) if (!there.has(jobId)) stopListening(jobId)
    }
    if (errors.length > 0) throw errors[0]
    return page.length
  }

  /** Listens for the grant of a request, for up to a page of jobs; polls find the others. */
  function listenFor(lock: LockDependency): void {
    const { jobId, askNo } = lock
    const known = listened.get(jobId)
    if (known?.askNo === askNo) {
      known.since = performance.now()
      return
    }
    stopListening(jobId)
    if (listened.size >= tendPage) return
    const forget = locks.listen(lock, () => onNext(jobId))
    listened.set(jobId, { askNo, forget, since: performance.now() })
  }

  function stopListening(jobId: string): void {
    listened.get(jobId)?.forget()
    listened.delete(jobId)
  }
}

/** A lock request for whose grant the resolver listens. */
interface ListenedRequest {
  readonly askNo: number
  readonly forget: () => void
  /** When this resolver last tended the job. */
  since: number
}

function isRequestDue({ state, fence, dueInMs }: LockDependency): boolean {
  return state === 'waiting' && fence === null && dueInMs === 0
}
