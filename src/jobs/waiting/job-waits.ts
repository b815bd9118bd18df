import type { Duration } from '../../core/duration.ts'
import { isSignalboxError } from '../../core/errors.ts'
import { createLoop, type Loop, type StepOutcome } from '../../core/loop.ts'
import { createNotifier, type Notifier } from '../../core/notifier.ts'
import { duration, onlyKeys, refuse, text } from '../../core/options.ts'
import type { JobsNotifier } from '../api/jobs-api.ts'
import { decodeJob } from '../decode-job.ts'
import type { FinalState, Job, JobState } from '../job.ts'
import { notFound, waitClosed } from '../job-errors.ts'
import type { JobStore } from '../job-store.ts'

/**
 * All waits of one process for jobs to end. The waits share their reads of the store:
 *
 *     new wait, hint (a job ended in this process) ──▶ read these jobs, soon ─────┐
 *     poll, every 200 ms (with very many waits: less often) ──▶ read all jobs ────┴──▶ waits of ended jobs resolve
 *
 * Hints may be lost; the poll finds every end. So 1,000 waits cost the store one statement a poll, and a wait ends at
 * the latest at its deadline, whatever the store does. Without waits nothing runs.
 *
 * Over HTTP the server waits: it holds the request until one of the jobs has ended. A new wait starts a new request.
 */
export interface JobWaitsParts {
  /**
   * Reads the present states of these jobs, in order; undefined: no such job. With `isHeld` it may wait with its answer
   * until one of the jobs has ended.
   */
  readonly look: LookAtJobs
  /** @default false */
  readonly isHeld?: boolean
  /** The source of hints. */
  readonly notifier?: JobsNotifier
}

export type LookAtJobs = (
  ids: readonly string[],
  signal: AbortSignal,
) => Promise<readonly (JobState | undefined)[]>

/** The most jobs of one read. */
export const maxWaitedIds = 1_000

/** The pause between two polls, and between two tries to read from an unavailable store. */
const pollMs = 200
/** The longest time of a timer: about 25 days. */
const maxTimerMs = 2 ** 31 - 1
/** The most ended jobs that are read at the same time. */
const maxReads = 50
/** With more than 1,000 waits the polls are rarer, so that their cost does not grow. */
const msPerWait = 0.2
/** The pause between two held requests, so that one answer has all ends of about the same time. */
const gatherMs = 20

export class JobWaits {
  readonly #parts: JobWaitsParts
  readonly #entries = new Set<Entry>()
  readonly #byId = new Map<string, Set<Entry>>()
  /** The jobs to read in the next step. */
  readonly #due = new Set<string>()
  #notifier: Notifier = createNotifier()
  #loop: Loop | undefined
  #held: AbortController | undefined
  #polledAt = Number.NEGATIVE_INFINITY
  #readCount = 0
  readonly #readers: (() => void)[] = []
  #state: 'open' | 'ending' | 'closed' = 'open'

  constructor(parts: JobWaitsParts) {
    this.#parts = parts
  }

  /** The number of waits. */
  get size(): number {
    return this.#entries.size
  }

  /**
   * Waits until one of these jobs has ended or is gone. Returns all of them that have, with their states (undefined: no
   * such job), or none after the time-out. Rejects with the signal's reason, and with `closed`.
   */
  any(ids: readonly string[], timeoutMs: number, signal?: AbortSignal): Promise<EndedStates> {
    return this.#wait(ids, (state) => state === undefined || isFinal(state), timeoutMs, signal)
  }

  /** Waits until the job is in another state than `from`, or is gone. */
  async changed(id: string, from: JobState, timeoutMs: number, signal?: AbortSignal): Promise<void> {
    await this.#wait([id], (state) => state !== from, timeoutMs, signal)
  }

  #wait(
    ids: readonly string[],
    isOver: Entry['isOver'],
    timeoutMs: number,
    signal: AbortSignal | undefined,
  ): Promise<EndedStates> {
    return new Promise((resolve, reject) => {
      if (signal?.aborted) return reject(signal.reason)
      if (this.#state === 'closed') return reject(waitClosed())
      if (this.#state === 'ending' || timeoutMs <= 0) return resolve(new Map())
      const abort = () => this.#leave(entry, () => reject(signal!.reason))
      const timeOut = () => this.#leave(entry, () => resolve(new Map()))
      const timer = setTimeout(timeOut, Math.min(timeoutMs, maxTimerMs))
      const entry: Entry = { ids, isOver, signal, abort, timer, resolve, reject }
      signal?.addEventListener('abort', abort)
      this.#enter(entry)
    })
  }

  /**
   * Reads an ended job, with at most 50 reads at a time: a call over HTTP has a time limit, which a thousand calls at
   * once would exceed.
   */
  async read<Answer>(ask: () => Promise<Answer>): Promise<Answer> {
    if (this.#readCount < maxReads) this.#readCount++
    else await new Promise<void>((resolve) => this.#readers.push(resolve))
    try {
      return await ask()
    } finally {
      const next = this.#readers.shift()
      if (next === undefined) this.#readCount--
      else next()
    }
  }

  /** These jobs may have ended. */
  touched(ids: readonly string[]): void {
    let isWaitedFor = false
    for (const id of ids) {
      if (!this.#byId.has(id)) continue
      this.#due.add(id)
      isWaitedFor = true
    }
    if (isWaitedFor) this.#notifier.wake()
  }

  /** Ends every wait like a time-out; later calls do not wait. For a server that shuts down. */
  endAll(): void {
    if (this.#state === 'open') this.#state = 'ending'
    for (const entry of [...this.#entries]) this.#leave(entry, () => entry.resolve(new Map()))
  }

  /** Ends every wait with the error `closed`. */
  close(): void {
    this.#state = 'closed'
    for (const entry of [...this.#entries]) this.#leave(entry, () => entry.reject(waitClosed()))
  }

  #enter(entry: Entry): void {
    this.#entries.add(entry)
    for (const id of entry.ids) {
      const others = this.#byId.get(id) ?? new Set()
      this.#byId.set(id, others.add(entry))
      this.#due.add(id)
    }
    this.#held?.abort(newWait)
    this.#loop ??= this.#start()
    this.#notifier.wake()
  }

  #leave(entry: Entry, answer: () => void): void {
    if (!this.#entries.delete(entry)) return
    clearTimeout(entry.timer)
    entry.signal?.removeEventListener('abort', entry.abort)
    for (const id of entry.ids) {
      const others = this.#byId.get(id)
      others?.delete(entry)
      if (others?.size !== 0) continue
      this.#byId.delete(id)
      this.#due.delete(id)
    }
    if (this.#entries.size === 0) this.#stop()
    answer()
  }

  #start(): Loop {
    hintsOf(this.#parts.notifier)?.add(this)
    this.#notifier = createNotifier()
    this.#polledAt = this.#parts.isHeld ? Number.NEGATIVE_INFINITY : performance.now()
    return createLoop({
      name: 'jobs.waits',
      step: ({ signal }) => (this.#parts.isHeld ? this.#holdLook(signal) : this.#look(signal)),
      notifier: this.#notifier,
      idleMs: this.#parts.isHeld ? gatherMs : pollMs,
      backoff: { baseMs: pollMs, maxMs: 5_000 },
    })
  }

  #stop(): void {
    hintsOf(this.#parts.notifier)?.delete(this)
    this.#held?.abort(newWait)
    void this.#loop?.stop({ graceMs: 0 })
    this.#loop = undefined
  }

  async #look(signal: AbortSignal): Promise<StepOutcome> {
    const now = performance.now()
    const isPoll = now - this.#polledAt >= Math.max(pollMs, this.#byId.size * msPerWait) * 0.9
    const ids = [...(isPoll ? this.#byId.keys() : this.#due)]
    if (isPoll) this.#polledAt = now
    this.#due.clear()
    try {
      for (let at = 0; at < ids.length && !signal.aborted; at += maxWaitedIds)
        await this.#lookAt(ids.slice(at, at + maxWaitedIds), signal)
    } catch (error) {
      // No hint is lost: after the back-off the loop reads all jobs.
      this.#polledAt = Number.NEGATIVE_INFINITY
      throw error
    }
    return this.#due.size > 0 ? 'more' : 'idle'
  }

  /** Reads all jobs with one request, which the server holds until a job ends or a new wait begins. */
  async #holdLook(signal: AbortSignal): Promise<StepOutcome> {
    const earlyMs = this.#polledAt + gatherMs - performance.now()
    if (earlyMs > 0) await new Promise((resolve) => setTimeout(resolve, earlyMs))
    this.#polledAt = performance.now()
    const held = new AbortController()
    this.#held = held
    const ids = [...this.#byId.keys()].slice(0, maxWaitedIds)
    // Move these ids to the end: the next request begins with those that did not fit.
    for (const id of ids) {
      const entries = this.#byId.get(id)!
      this.#byId.delete(id)
      this.#byId.set(id, entries)
    }
    try {
      await this.#lookAt(ids, AbortSignal.any([signal, held.signal]))
    } catch (error) {
      if (!held.signal.aborted) throw error
    }
    return 'idle'
  }

  async #lookAt(ids: readonly string[], signal: AbortSignal): Promise<void> {
    const states = await this.#parts.look(ids, signal)
    const answered = new Map<Entry, Map<string, FinalState | undefined>>()
    for (const [at, id] of ids.entries()) {
      const state = states[at]
      for (const entry of this.#byId.get(id) ?? []) {
        if (!entry.isOver(state)) continue
        const of = answered.get(entry) ?? new Map<string, FinalState | undefined>()
        answered.set(entry, of.set(id, state as FinalState | undefined))
      }
    }
    for (const [entry, of] of answered) this.#leave(entry, () => entry.resolve(of))
  }
}

/** The states of ended jobs, by id; undefined: no such job. */
export type EndedStates = ReadonlyMap<string, FinalState | undefined>

interface Entry {
  readonly ids: readonly string[]
  /** Whether a job in this state ends the wait. */
  readonly isOver: (state: JobState | undefined) => boolean
  readonly signal: AbortSignal | undefined
  readonly abort: () => void
  readonly timer: ReturnType<typeof setTimeout>
  readonly resolve: (ended: EndedStates) => void
  readonly reject: (reason: unknown) => void
}

/** Created once: no code reads the reason, and its stack would be the largest cost of a new wait. */
const newWait = new DOMException('The set of waits changed.', 'AbortError')

const finalStates: ReadonlySet<JobState> = new Set<FinalState>(['completed', 'dead', 'cancelled'])

export function isFinal(state: JobState): state is FinalState {
  return finalStates.has(state)
}

/** The waits of this process, by the notifier that they share with the code that ends jobs. */
const waiting = new WeakMap<JobsNotifier, Set<JobWaits>>()

function hintsOf(notifier: JobsNotifier | undefined): Set<JobWaits> | undefined {
  if (notifier === undefined) return undefined
  const known = waiting.get(notifier) ?? new Set()
  waiting.set(notifier, known)
  return known
}

/** Hints to the waits of this process that these jobs may have ended. */
export function hintWaits(notifier: JobsNotifier, jobIds: readonly string[]): void {
  for (const waits of waiting.get(notifier) ?? []) waits.touched(jobIds)
}

/** How long to wait for a job. */
export interface WaitOptions {
  /** @default 60_000 */
  readonly timeoutMs?: Duration | undefined
  /** Ends the wait: it rejects with the signal's reason. */
  readonly signal?: AbortSignal | undefined
}

/** A job that will not run again, unless an operator retries it. */
export type EndedJob<Payload = unknown> = Job<Payload> & { readonly state: FinalState }

/** How a wait for a job ended: the job has ended, or the time-out came first. */
export type WaitedJob<Payload = unknown> =
  | { readonly status: 'ended'; readonly job: EndedJob<Payload> }
  | { readonly status: 'timeout'; readonly job: Job<Payload> }

export function resolveWait(options: WaitOptions): { timeoutMs: number; signal: AbortSignal | undefined } {
  onlyKeys('wait', options, ['timeoutMs', 'signal'])
  const { timeoutMs = 60_000, signal } = options
  if (signal !== undefined && !(signal instanceof AbortSignal))
    refuse('wait.signal', 'an AbortSignal', signal)
  return { timeoutMs: duration('wait.timeoutMs', timeoutMs, { max: maxTimerMs }), signal }
}

/** Throws `not_found`, `closed`, the signal's reason, and the error of the store at the deadline. */
export async function waitForJob(
  { store, waits, passesSealed }: { store: Pick<JobStore, 'find'>; waits: JobWaits; passesSealed: boolean },
  id: string,
  options: WaitOptions,
): Promise<WaitedJob> {
  text('wait.id', id)
  const { timeoutMs, signal } = resolveWait(options)
  const endsAt = performance.now() + timeoutMs
  await waits.any([id], timeoutMs, signal)
  // The row has the result of an ended job. At the deadline, this read gives the present state, or the store's error.
  const record = await readUntil(endsAt, () => waits.read(() => store.find(id)), signal)
  if (record === undefined) throw notFound(id)
  const job = decodeJob(record, passesSealed)
  return isFinal(job.state) ? { status: 'ended', job: job as EndedJob } : { status: 'timeout', job }
}

/** Reads again until the deadline while the store is unavailable. */
async function readUntil<Answer>(
  endsAt: number,
  read: () => Promise<Answer>,
  signal: AbortSignal | undefined,
): Promise<Answer> {
  for (;;) {
    try {
      return await read()
    } catch (error) {
      const isPassing = isSignalboxError(error, 'store_unavailable') || isSignalboxError(error, 'timeout')
      if (!isPassing || performance.now() + pollMs >= endsAt) throw error
      signal?.throwIfAborted()
      await new Promise((resolve) => setTimeout(resolve, pollMs))
      signal?.throwIfAborted()
    }
  }
}
