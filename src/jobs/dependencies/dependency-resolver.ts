import { patientClock } from '../../core/clock.ts'
import { createLoop, type Loop } from '../../core/loop.ts'
import { createNotifier } from '../../core/notifier.ts'
import { createAlarm } from '../api/due-alarm.ts'
import type { JobStore } from '../job-store.ts'
import { gatesTopic, type JobsNotifier, queueTopic } from '../jobs-parts.ts'
import type { Dependency, GateStore, LockGate } from './dependency-store.ts'
import { DependencyWalk } from './dependency-walk.ts'
import { type LockWorkParts, tendGate, tendMs, tendPage } from './job-lock-keeper.ts'
import type { JobLocks } from './job-locks.ts'
import { type JudgeParts, judgeDependenciesFrom, judgeDependenciesOf } from './judge-dependencies.ts'

/** What a gatekeeper needs. */
export interface GatekeeperParts {
  readonly gates: GateStore
  readonly store: Pick<JobStore, 'find'>
  readonly locks: JobLocks
  readonly notifier: JobsNotifier
}

/**
 * Lets on whatever may go now, once through; answers how many jobs it looked at. For whoever keeps the time himself: a
 * gatekeeper does the same by itself.
 */
export async function letOn({ gates, store, locks, notifier }: GatekeeperParts): Promise<number> {
  const onReady = (queue: string) => notifier.wake(queueTopic(queue))
  const next: string[] = []
  const onNext = (jobId: string) => void next.push(jobId)
  const judging: JudgeParts = { gates, store, onReady, onCalled: onNext }
  let seen = 0
  for (let after: Dependency | undefined; ; ) {
    const page = await judgeDependenciesFrom(judging, after)
    seen += page.count
    after = page.next
    if (after === undefined) break
  }
  const work: LockWorkParts = { gates, locks, onReady, onNext, onLater: () => undefined }
  // Those that were called just now, and whoever is next after a turn that ended.
  for (let of: string[] | undefined; of === undefined || of.length > 0; of = next.splice(0)) {
    const page = await gates.tend({ ...(of && { of }), limit: tendPage, tendMs: 0 })
    for (const gate of page) await tendGate(work, gate)
    seen += page.length
  }
  return seen
}

/** Those that listen to a notifier, so that a wake-up made here can carry the ids. */
const keepers = new WeakMap<JobsNotifier, Set<Gatekeeper>>()

/**
 * Tells the gatekeepers of these jobs in this process that they ended, or are to wait again. `isSure`: they have a lock,
 * or are next in the line of one; where there is no keeper, those elsewhere are woken for.
 */
export function tellGatekeepers(notifier: JobsNotifier, jobIds: readonly string[], isSure = false): void {
  const here = keepers.get(notifier)
  for (const keeper of here ?? []) keeper.touched(jobIds, isSure)
  if (isSure && !here?.size) notifier.wake(gatesTopic)
}

interface Gatekeeper {
  /** These jobs ended, or are to wait again: those that wait for them may go on. */
  touched(jobIds: readonly string[], isSure: boolean): void
}

const idleMs = 5_000
const busyMs = 1_000
/** What is told faster than it can be followed up is left to the walk over all. */
const maxTouched = 10_000
/** Whom nobody tended here for so long, another keeper tends, and listens for. */
const listenMs = 5 * tendMs

/**
 * Lets jobs on that wait: for others to complete, or for a lock. Any number may do so at once, in any number of
 * processes. It acts at once on what it is told of (a job that ended here, a line that moved), and looks at everything
 * in turn besides, so what nobody told it of is late and never lost: once a second while somebody waits, else every 5 s.
 */
export function createGatekeeper(parts: GatekeeperParts): Loop {
  const { gates, locks, notifier } = parts
  const own = createNotifier()
  const alarm = createAlarm(() => own.wake())
  const touched = new Set<string>()
  const lines = new Map<string, Heard>()
  const later = new Map<string, number>()
  let pollsAt = 0
  /** Somebody may wait: else it is not worth knowing who ended. */
  let isBusy = true

  const onReady = (queue: string) => notifier.wake(queueTopic(queue))
  const onNext = (jobId: string) => {
    if (touched.size < maxTouched) touched.add(jobId)
    own.wake()
  }
  /** Those that are due within a poll; of the others the polls know. */
  const onLater = (jobId: string, inMs: number) => {
    if (inMs > idleMs || later.size >= tendPage) return
    later.set(jobId, performance.now() + inMs)
    alarm.set(inMs)
  }
  const judging: JudgeParts = { gates, store: parts.store, onReady, onCalled: onNext }
  const walk = new DependencyWalk((after) => judgeDependenciesFrom(judging, after))
  const work: LockWorkParts = { gates, locks, onReady, onNext, onLater }

  const unlisten = notifier.listen([gatesTopic], () => {
    isBusy = true
    walk.expect()
    own.wake()
  })

  const loop = createLoop({
    name: 'jobs.gates',
    idleMs,
    notifier: own,
    clock: patientClock,
    async step({ signal, progress }) {
      const now = performance.now()
      for (const [jobId, at] of later) if (at <= now && later.delete(jobId)) touched.add(jobId)
      const told = [...touched]
      touched.clear()
      for (const [jobId, { since }] of lines) if (now - since > listenMs) listenNoMore(jobId)
      let seen = 0
      for (let at = 0; at < told.length && !signal.aborted; at += tendPage) {
        const of = told.slice(at, at + tendPage)
        seen += await judgeDependenciesOf(judging, of)
        seen += await tend(of, signal, progress)
      }
      seen += await tend(undefined, signal, progress)
      await walk.step()
      // Whoever was tended a moment ago, or is by another keeper, was not seen; what becomes of it is worth knowing too.
      isBusy = seen > 0 || lines.size > 0 || walk.hasFound || (await gates.hasCalled())
      if (touched.size > 0 || walk.isUnderWay) return 'more'
      if (isBusy) pollSoon()
      return 'idle'
    },
  })
  loop.events.on('stopped', () => {
    unlisten()
    alarm.clear()
    for (const { forget } of lines.values()) forget()
    lines.clear()
    known.delete(keeper)
  })
  const keeper: Gatekeeper = {
    touched(jobIds, isSure) {
      if (!isBusy && !isSure) return
      for (const jobId of jobIds) if (touched.size < maxTouched) touched.add(jobId)
      if (touched.size > 0) own.wake()
    },
  }
  const known = keepers.get(notifier) ?? new Set()
  keepers.set(notifier, known.add(keeper))
  return loop

  /** Once, however many steps ask for it: each poll asks for the next. */
  function pollSoon(): void {
    const now = performance.now()
    if (pollsAt > now) return
    pollsAt = now + busyMs
    alarm.set(busyMs)
  }

  /** One job's trouble is not another's: what was wrong is told when all have had their turn. */
  async function tend(
    of: readonly string[] | undefined,
    signal: AbortSignal,
    progress: () => void,
  ): Promise<number> {
    const wrong: unknown[] = []
    const page = await gates.tend({ ...(of && { of }), limit: tendPage, tendMs })
    for (const gate of page) {
      if (signal.aborted) break
      // Before it asks: who is called between the answer and the listening would have to wait for the next look.
      if (isToAsk(gate)) listenFor(gate)
      try {
        if ((await tendGate(work, gate)) !== 'waits') listenNoMore(gate.jobId)
      } catch (error) {
        wrong.push(error)
      }
      progress()
    }
    // What was called for and is not there was let on by another keeper.
    if (of !== undefined && !signal.aborted) {
      const there = new Set(page.map(({ jobId }) => jobId))
      for (const jobId of of) if (!there.has(jobId)) listenNoMore(jobId)
    }
    if (wrong.length > 0) throw wrong[0]
    return page.length
  }

  /** Hears when the line of a job that waits has moved; the polls find out for those beyond what can be listened for. */
  function listenFor(gate: LockGate): void {
    const { jobId, askNo } = gate
    const known = lines.get(jobId)
    if (known?.askNo === askNo) {
      known.since = performance.now()
      return
    }
    listenNoMore(jobId)
    if (lines.size >= tendPage) return
    const forget = locks.listen(gate, () => onNext(jobId))
    lines.set(jobId, { askNo, forget, since: performance.now() })
  }

  function listenNoMore(jobId: string): void {
    lines.get(jobId)?.forget()
    lines.delete(jobId)
  }
}

/** A place in line that is listened for: another ask is another place. */
interface Heard {
  readonly askNo: number
  readonly forget: () => void
  /** When it was last tended here. */
  since: number
}

function isToAsk({ state, fence, dueInMs }: LockGate): boolean {
  return state === 'waiting' && fence === null && dueInMs === 0
}
