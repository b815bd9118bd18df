/**
 * Claims tasks for this process, as many as it may hold, and feeds them to the registry. Wake-ups and alarms say when
 * to look; polling is the truth.
 */

import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { createLoop, type Loop } from '../../core/loop.ts'
import { type Alarm, createAlarm, createNotifier, type Notifier } from '../../core/notifier.ts'
import { type ClaimedRecord, type JobRecord, type JobStore, queueTopic } from '../../jobs/index.ts'
import type { Engine } from '../engine.ts'
import type { TaskSpec } from '../node.ts'
import { decodeDocument, dispatchQueue, encodeFault, specOf, type TaskDocument } from './task-document.ts'

/** How much may wait to be written before another claim. */
const maxBacklog = 5_000
/** Dispatches before the registry, beyond which the next is held back. */
const maxWaiting = 64

/** Claims until it is stopped. */
export class TaskFetcher {
  readonly #engine: Engine
  readonly #notifier: Notifier = createNotifier()
  readonly #alarm: Alarm = createAlarm(() => this.#notifier.wake())
  #loop: Loop | null = null
  #unlisten: (() => void) | null = null
  #isHungry = false
  #isStopping = false

  constructor(engine: Engine) {
    this.#engine = engine
  }

  get healthy(): boolean {
    return this.#loop?.healthy ?? false
  }

  start(): void {
    if (this.#isStopping) return
    const { notifier, options } = this.#engine
    this.#unlisten = notifier.listen([queueTopic(dispatchQueue)], () => this.#notifier.wake())
    this.#loop = createLoop({
      name: 'dispatch.fetcher',
      notifier: this.#notifier,
      idleMs: options.pollMs,
      backoff: { baseMs: 50, maxMs: 2_000 },
      step: () => this.#step(),
    })
    this.#loop.events.on('failed', ({ error }) => this.#engine.onTrouble(error))
  }

  /** Something may be there to claim, now or after `afterMs`. */
  wake(afterMs = 0): void {
    if (this.#isStopping) return
    if (afterMs <= 0) this.#notifier.wake()
    else this.#alarm.set(afterMs)
  }

  /** There is capacity again. */
  freed(): void {
    if (this.#isHungry && this.#capacity() > 0) {
      this.#isHungry = false
      this.#notifier.wake()
    }
  }

  async stop(withinMs: number): Promise<void> {
    this.#isStopping = true
    this.#unlisten?.()
    this.#alarm.clear()
    await this.#loop?.stop({ graceMs: withinMs })
  }

  async #step(): Promise<'more' | 'idle'> {
    const { jobs, options, monotonicMs, sharing } = this.#engine
    const { workerId, leaseMs } = options
    let isMore = false
    for (const { kinds, limit: most, isWhole } of sharing.kinds.asks()) {
      const limit = Math.min(most, this.#capacity())
      this.#isHungry = limit <= 0
      if (limit <= 0 || this.#isStopping) return 'idle'
      const sentAt = monotonicMs()
      const records = await jobs.claim({ queues: [dispatchQueue], kinds, workerId, limit, leaseMs })
      await this.#feed(records, sentAt + leaseMs)
      if (isWhole && records.length === limit) isMore = true
    }
    return isMore ? 'more' : 'idle'
  }

  /** As fast as the registry takes them: a long line before it would hold up what came after. */
  async #feed(records: readonly ClaimedRecord[], leaseUntil: number): Promise<void> {
    const { mailbox } = this.#engine
    for (const record of records) {
      const fault = this.#receive(record, leaseUntil)
      if (fault !== undefined) await this.#park(record, fault)
      while (!this.#isStopping && mailbox.depth().dispatches >= maxWaiting) await nextTurn()
    }
  }

  /** Answers what was wrong with it, if anything was. */
  #receive(record: ClaimedRecord, leaseUntil: number): unknown {
    const { claims, options, post, now } = this.#engine
    let document: TaskDocument
    let task: TaskSpec
    try {
      document = decodeDocument(record)
      const { leaseMs, maxAttempts } = options
      task = specOf(record, document, { now: now(), leaseMs, maxAttempts })
    } catch (error) {
      return error
    }
    claims.add(record, document, task, leaseUntil)
    this.#engine.claimed(task)
    // It cannot fail for lack of capacity: far fewer wait than the lane takes. A closed mailbox is a stop, which hands
    // it back.
    post({ kind: 'submit', task })
    return undefined
  }

  /** What cannot be read is dead, with the reason. */
  async #park(record: ClaimedRecord, thrown: unknown): Promise<void> {
    const message = thrown instanceof Error ? thrown.message : String(thrown)
    const error = encodeFault({ code: 'undecodable', message }, null)
    const verdict = { state: 'dead', delayMs: 0, ranMs: null, result: null, error } as const
    const { id, token, attempt, handBackCount, snoozeCount } = record
    await this.#engine.jobs.settle([{ jobId: id, token, attempt, handBackCount, snoozeCount, ...verdict }])
  }

  #capacity(): number {
    const { claims, options, completer } = this.#engine
    if (claims.bytes >= options.maxHeldBytes || completer.size >= maxBacklog) return 0
    return options.maxHeld - claims.size
  }
}

const maxActive = 8
const maxQueued = 10_000
const retryMs = 200

/**
 * Finds tasks in the background, a few at a time. A lookup that fails is tried again until the store answers, because a
 * node may be closed for new work until then. Lookups beyond the bound are dropped: nodes list their tasks again.
 */
export class Lookups {
  readonly #store: Pick<JobStore, 'find'>
  readonly #onTrouble: (error: unknown) => void
  #queue: { readonly taskId: string; readonly found: (record: JobRecord | undefined) => void }[] = []
  #active = 0
  #isStopped = false

  constructor(store: Pick<JobStore, 'find'>, onTrouble: (error: unknown) => void) {
    this.#store = store
    this.#onTrouble = onTrouble
  }

  ask(taskId: string, found: (record: JobRecord | undefined) => void): void {
    if (this.#isStopped || this.#queue.length >= maxQueued) return
    this.#queue.push({ taskId, found })
    if (this.#active < maxActive) void this.#work()
  }

  /** Asks no more. */
  stop(): void {
    this.#isStopped = true
    this.#queue = []
  }

  async #work(): Promise<void> {
    this.#active += 1
    for (let next = this.#queue.shift(); next !== undefined; next = this.#queue.shift()) {
      try {
        next.found(await this.#store.find(next.taskId))
      } catch (error) {
        this.#onTrouble(error)
        if (!this.#isStopped) this.#queue.push(next)
        await sleep(retryMs)
      }
    }
    this.#active -= 1
  }
}
