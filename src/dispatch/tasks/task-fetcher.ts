/**
 * Claims tasks up to the capacity of this process and submits them to the registry. Wake-ups and alarms start a claim
 * at once; polling finds the tasks that they missed.
 */

import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises'
import { createLoop, type Loop } from '../../core/loop.ts'
import { type Alarm, createAlarm, createNotifier, type Notifier } from '../../core/notifier.ts'
import { type ClaimedRecord, type JobRecord, type JobStore, queueTopic } from '../../jobs/index.ts'
import type { Engine } from '../engine.ts'
import type { TaskSpec } from '../node.ts'
import { decodeDocument, dispatchQueue, encodeFault, specOf, type TaskDocument } from './task-document.ts'

/** With this many unwritten ends the fetcher claims no more. */
const maxBacklog = 5_000
/** The fetcher waits while the mailbox has this many dispatches. */
const maxWaiting = 64

/** Claims tasks until it is stopped. */
export class TaskFetcher {
  readonly #engine: Engine
  readonly #notifier: Notifier = createNotifier()
  readonly #alarm: Alarm = createAlarm(() => this.#notifier.wake())
  #loop: Loop | null = null
  #unlisten: (() => void) | null = null
  #isFull = false
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
    this.#loop.events.on('failed', ({ error }) => this.#engine.onError(error))
  }

  /** A task may be ready to claim, now or after `afterMs`. */
  wake(afterMs = 0): void {
    if (this.#isStopping) return
    if (afterMs <= 0) this.#notifier.wake()
    else this.#alarm.set(afterMs)
  }

  /** The process may have free capacity again. */
  capacityChanged(): void {
    if (this.#isFull && this.#capacity() > 0) {
      this.#isFull = false
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
    for (const { kinds, limit: maxCount, repeats } of sharing.kinds.claimRequests()) {
      const limit = Math.min(maxCount, this.#capacity())
      this.#isFull = limit <= 0
      if (limit <= 0 || this.#isStopping) return 'idle'
      const sentAt = monotonicMs()
      const records = await jobs.claim({ queues: [dispatchQueue], kinds, workerId, limit, leaseMs })
      await this.#submitAll(records, sentAt + leaseMs)
      if (repeats && records.length === limit) isMore = true
    }
    return isMore ? 'more' : 'idle'
  }

  /** Submits tasks as fast as the registry handles them: a long queue in the mailbox would delay later commands. */
  async #submitAll(records: readonly ClaimedRecord[], leaseUntil: number): Promise<void> {
    const { mailbox } = this.#engine
    for (const record of records) {
      const fault = this.#submit(record, leaseUntil)
      if (fault !== undefined) await this.#fail(record, fault)
      while (!this.#isStopping && mailbox.depth().dispatches >= maxWaiting) await nextTurn()
    }
  }

  /** Submits a claimed task. Returns the error of a job that cannot be decoded. */
  #submit(record: ClaimedRecord, leaseUntil: number): unknown {
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
    // The mailbox is never full here, because `#submitAll` waits before. Only a stop closes it, and hands the task
    // back.
    post({ kind: 'submit', task })
    return undefined
  }

  /** Ends a job that cannot be decoded as dead, with the reason. */
  async #fail(record: ClaimedRecord, thrown: unknown): Promise<void> {
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
 * Finds tasks in the background, a few at a time. A failed lookup is repeated until the store answers, because a node
 * may be closed for new work until then. Lookups beyond the limit are dropped: nodes list their tasks again.
 */
export class Lookups {
  readonly #store: Pick<JobStore, 'find'>
  readonly #onError: (error: unknown) => void
  #queue: { readonly taskId: string; readonly onFound: (record: JobRecord | undefined) => void }[] = []
  #active = 0
  #isStopped = false

  constructor(store: Pick<JobStore, 'find'>, onError: (error: unknown) => void) {
    this.#store = store
    this.#onError = onError
  }

  find(taskId: string, onFound: (record: JobRecord | undefined) => void): void {
    if (this.#isStopped || this.#queue.length >= maxQueued) return
    this.#queue.push({ taskId, onFound })
    if (this.#active < maxActive) void this.#work()
  }

  /** Stops all lookups. */
  stop(): void {
    this.#isStopped = true
    this.#queue = []
  }

  async #work(): Promise<void> {
    this.#active += 1
    for (let next = this.#queue.shift(); next !== undefined; next = this.#queue.shift()) {
      try {
        next.onFound(await this.#store.find(next.taskId))
      } catch (error) {
        this.#onError(error)
        if (!this.#isStopped) this.#queue.push(next)
        await sleep(retryMs)
      }
    }
    this.#active -= 1
  }
}
