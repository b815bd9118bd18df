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
 * Unblocks all jobs that may run now, in one pass. Returns how many jobs it looked at. For tests that drive the clock.
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
  const judging: JudgeParts = { dependencies, store, onReady, onCalled: onNext }
  let seen = 0
  for (let after: Dependency | undefined; ; ) {
    const page = await judgeDependenciesFrom(judging, after)
    seen += page.count
    after = page.next
    if (after === undefined) break
  }
  const work: LockWorkParts = { dependencies, locks, onReady, onNext, onLater: () => undefined }
  // Jobs whose lock is to be requested since just now, and those that are next after a release.
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
 * Wakes the resolvers of this process: these jobs ended, or must wait again. `isSure`: they have a lock, or are next
 * for one; without a local resolver, those of other processes are woken.
 */
export function wakeResolvers(notifier: JobsNotifier, jobIds: readonly string[], isSure = false): void {
  const here = resolvers.get(notifier)
  for (const resolver of here ?? []) resolver.touched(jobIds, isSure)
  if (isSure && !here?.size) notifier.wake(dependenciesTopic)
}

interface Resolver {
  /** These jobs ended, or must wait again: their dependents may be unblocked. */
  touched(jobIds: readonly string[], isSure: boolean): void
}

const idleMs = 5_000
const busyMs = 1_000
/** Beyond this many ids, the walk over all dependencies finds the rest. */
const maxTouched = 10_000
/** A job not tended here for this long is tended by another resolver, which listens for it. */
const listenMs = 5 * tendMs

/**
 * Unblocks jobs that wait for other jobs or for a lock. Any number of resolvers may run, in any number of processes. A
 * resolver acts at once on local wake-ups (a job ended here, a wait queue moved). It also polls all dependencies once a
 * second while any job is blocked, and else asks every 5 s whether one is: so a missed wake-up delays a job, and never
 * loses it.
 */
export function createDependencyResolver(parts: DependencyResolverParts): Loop {
  const { dependencies, locks, notifier } = parts
  const own = createNotifier()
  const alarm = createAlarm(() => own.wake())
  const touched = new Set<string>()
  const listened = new Map<string, Heard>()
  const later = new Map<string, number>()
  let pollsAt = 0
  /** Whether jobs may be blocked: otherwise ended jobs are of no interest. */
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
  const judging: JudgeParts = { dependencies, store: parts.store, onReady, onCalled: onNext }
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
      for (const [jobId, { since }] of listened) if (now - since > listenMs) listenNoMore(jobId)
      let seen = 0
      for (let at = 0; at < woken.length && !signal.aborted; at += tendPage) {
        const of = woken.slice(at, at + tendPage)
        seen += await judgeDependenciesOf(judging, of)
        seen += await tend(of, signal, progress)
      }
      seen += await tend(undefined, signal, progress)
      await walk.step()
      // A job tended a moment ago, or by another resolver, was not seen, but is still blocked.
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
    touched(jobIds, isSure) {
      if (!isBusy && !isSure) return
      for (const jobId of jobIds) if (touched.size < maxTouched) touched.add(jobId)
      if (touched.size > 0) own.wake()
    },
  }
  const known = resolvers.get(notifier) ?? new Set()
  resolvers.set(notifier, known.add(resolver))
  return loop

  /** Sets one alarm, however many steps ask for it. */
  function pollSoon(): void {
    const now = performance.now()
    if (pollsAt > now) return
    pollsAt = now + busyMs
    alarm.set(busyMs)
  }

  /** Tends a page of jobs. An error of one job is thrown after all others were tended. */
  async function tend(
    of: readonly string[] | undefined,
    signal: AbortSignal,
    progress: () => void,
  ): Promise<number> {
    const wrong: unknown[] = []
    const page = await dependencies.tend({ ...(of && { of }), limit: tendPage, tendMs })
    for (const lock of page) {
      if (signal.aborted) break
      // Listen before asking: a grant between the answer and the listening would wait for the next poll.
      if (isToAsk(lock)) listenFor(lock)
      try {
        if ((await tendLock(work, lock)) !== 'waits') listenNoMore(lock.jobId)
      } catch (error) {
        wrong.push(error)
      }
      progress()
    }
    // A job that is no longer there was unblocked by another resolver.
    if (of !== undefined && !signal.aborted) {
      const there = new Set(page.map(({ jobId }) => jobId))
      for (const jobId of of) if (!there.has(jobId)) listenNoMore(jobId)
    }
    if (wrong.length > 0) throw wrong[0]
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
    listenNoMore(jobId)
    if (listened.size >= tendPage) return
    const forget = locks.listen(lock, () => onNext(jobId))
    listened.set(jobId, { askNo, forget, since: performance.now() })
  }

  function listenNoMore(jobId: string): void {
    listened.get(jobId)?.forget()
    listened.delete(jobId)
  }
}

/** A request that is listened for. */
interface Heard {
  readonly askNo: number
  readonly forget: () => void
  /** When it was last tended here. */
  since: number
}

function isToAsk({ state, fence, dueInMs }: LockDependency): boolean {
  return state === 'waiting' && fence === null && dueInMs === 0
}
