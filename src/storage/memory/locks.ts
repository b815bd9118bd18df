import type { LockKey, LockStore, WaitingHolder, WaitQueueSummary, WaitQueueView } from '../../locks/index.ts'
import {
  expire,
  type Holder,
  type Notified,
  type Outcome,
  type Requester,
  type Rule,
  type Ruled,
  runNow,
  sweep,
  type Waiter,
  type WaitQueueRow,
  type WaitQueueRows,
} from '../../locks/rules/index.ts'
import { compareBytes } from '../compare-bytes.ts'
import { changesOf, ruledLocks } from '../ruled-locks.ts'
import { maxWaitingHolders } from '../sql/locks/wait-queue-record.ts'

/**
 * Wait queues in memory: the model for the other engines. A wait queue is a few plain collections, and a look-up
 * searches all of it. Each call runs one rule synchronously, which makes it atomic.
 */
export function createMemoryLocks(now: () => number): LockStore {
  const queues = new Map<string, MemoryWaitQueue>()
  let lastToken = 0

  function mintToken(): number {
    lastToken = Math.max(lastToken + 1, now() * 1_000)
    return lastToken
  }

  function run<Answer>(key: LockKey, rule: Rule<Answer>): Answer {
    return runNow(rule, queueOf(key), (operation) => queueOf({ ...key, operation }))
  }

  function queueOf(key: LockKey): MemoryWaitQueue {
    const name = nameOf(key)
    const queue = queues.get(name) ?? new MemoryWaitQueue(key, now, mintToken)
    queues.set(name, queue)
    return queue
  }

  return {
    ...ruledLocks(async (key, rule) => run(key, rule())),

    async inspect(key, limit) {
      return queues.get(nameOf(key))?.view(limit)
    },

    async list({ operation, search, limit, after }) {
      return [...queues.values()]
        .filter(({ key }) => operation === undefined || key.operation === operation)
        .filter(({ key }) => search === undefined || key.resource.includes(search))
        .filter(({ key }) => after === undefined || compareKeys(key, after) > 0)
        .filter((queue) => queue.isBusy)
        .sort((a, b) => compareKeys(a.key, b.key))
        .slice(0, limit)
        .map((queue) => queue.summary())
    },

    async findWaitingHolders(keys) {
      const holders: WaitingHolder[] = []
      for (const key of keys) {
        const holder = queues.get(nameOf(key))?.liveHolder()
        if (!holder) continue
        const { node, requestId, token } = holder
        for (const queue of queues.values()) {
          const waiter = queue.waiter(holder)
          if (!waiter) continue
          const { operation, resource } = key
          const holds = { operation, resource }
          holders.push({ who: { node, requestId }, holds, token, waitsFor: queue.key, seq: waiter.seq })
        }
      }
      return holders.slice(0, maxWaitingHolders)
    },

    async sweep(limit, times) {
      const swept: { key: LockKey; notified: Notified }[] = []
      const step = (key: LockKey, rule: Rule<Ruled<object>>) => {
        swept.push(...changesOf(key, run(key, rule)))
      }
      for (const [name, queue] of [...queues]) {
        if (swept.length >= limit) break
        if (queue.isDue) step(queue.key, sweep(times))
        for (const who of queue.gone()) step(queue.key, expire(who, times))
        queue.forgetOutcomes()
        if (queue.isOver(times.keepMs)) queues.delete(name)
      }
      return swept
    },
  }
}

class MemoryWaitQueue implements WaitQueueRows {
  readonly key: LockKey
  readonly #now: () => number
  readonly #mint: () => number
  #row: WaitQueueRow | undefined
  #dueAt: number | null = null
  #waiters: Waiter[] = []
  #outcomes: Outcome[] = []

  constructor(key: LockKey, now: () => number, mint: () => number) {
    this.key = { operation: key.operation, resource: key.resource }
    this.#now = now
    this.#mint = mint
  }

  operation(): string {
    return this.key.operation
  }

  clock(): { now: number; wall: number } {
    return { now: this.#now(), wall: this.#now() }
  }

  queue(): WaitQueueRow | undefined {
    return this.#row
  }

  saveQueue(row: WaitQueueRow, dueAt: number | null): void {
    this.#row = row
    this.#dueAt = dueAt
  }

  mintToken(): number {
    return this.#mint()
  }

  waiter(who: Requester): Waiter | undefined {
    return this.#waiters.find((waiter) => isSame(waiter, who))
  }

  firstWaiter(): Waiter | undefined {
    return this.#waiters[0]
  }

  countWaiters(beforeSeq = Number.POSITIVE_INFINITY): number {
    return this.#waiters.filter(({ seq }) => seq < beforeSeq).length
  }

  saveWaiter(waiter: Waiter): void {
    this.removeWaiter(waiter)
    this.#waiters.push(waiter)
    this.#waiters.sort((a, b) => a.seq - b.seq)
  }

  removeWaiter(who: Requester): void {
    this.#waiters = this.#waiters.filter((waiter) => !isSame(waiter, who))
  }

  outcome(who: Requester): Outcome | undefined {
    return this.#outcomes.find((outcome) => isSame(outcome, who) && outcome.keptUntil > this.#now())
  }

  saveOutcome(outcome: Outcome): void {
    this.removeOutcome(outcome)
    this.#outcomes.push(outcome)
  }

  removeOutcome(who: Requester): void {
    this.#outcomes = this.#outcomes.filter((outcome) => !isSame(outcome, who))
  }

  dissolve(wants: 'result' | 'all', outcome: Omit<Outcome, 'node' | 'requestId' | 'seq'>): number {
    const leaving = this.#waiters.filter(({ want }) => wants === 'all' || want === 'result')
    for (const { node, requestId, seq } of leaving) {
      this.removeWaiter({ node, requestId })
      this.saveOutcome({ ...outcome, node, requestId, seq })
    }
    return leaving.length
  }

  get isDue(): boolean {
    return this.#dueAt !== null && this.#dueAt <= this.#now()
  }

  get isBusy(): boolean {
    return this.#row?.holder != null || this.#waiters.length > 0
  }

  gone(): readonly Requester[] {
    const now = this.#now()
    return this.#waiters.filter(
      ({ leaseEndsAt, deadlineAt }) => leaseEndsAt <= now || (deadlineAt !== null && deadlineAt <= now),
    )
  }

  forgetOutcomes(): void {
    const now = this.#now()
    this.#outcomes = this.#outcomes.filter(({ keptUntil }) => keptUntil > now)
  }

  /** The queue has no holder, waiter or outcome to deliver, and the last outcome has expired. */
  isOver(keepMs: number): boolean {
    if (this.isBusy || this.#outcomes.length > 0) return false
    const { lastOutcome = null, grantFrom = 0 } = this.#row ?? {}
    return grantFrom <= this.#now() && (lastOutcome === null || lastOutcome.at + keepMs <= this.#now())
  }

  view(limit: number): WaitQueueView {
    const waiters = this.#waiters.slice(0, limit).map(({ node, requestId, since, want }, index) => ({
      node,
      requestId,
      position: index + 1,
      since,
      want,
    }))
    const { revision = 0, lastOutcome = null } = this.#row ?? {}
    return { ...this.summary(), revision, waiters, lastOutcome }
  }

  summary(): WaitQueueSummary {
    return { ...this.key, holder: this.#holderView(), waiterCount: this.#waiters.length }
  }

  /** The holder, unless its lease has ended. */
  liveHolder(): Holder | null {
    const holder = this.#row?.holder ?? null
    return holder && holder.leaseEndsAt > this.#now() ? holder : null
  }

  #holderView(): WaitQueueSummary['holder'] {
    const holder = this.liveHolder()
    if (!holder) return null
    const { node, requestId, attempt, since, leaseEndsAt, progress } = holder
    return { node, requestId, attempt, since, expiresAt: leaseEndsAt, progress }
  }
}

function isSame(a: Requester, b: Requester): boolean {
  return a.node === b.node && a.requestId === b.requestId
}

/** A unique name for a wait queue. */
function nameOf({ operation, resource }: LockKey): string {
  return JSON.stringify([operation, resource])
}

function compareKeys(a: LockKey, b: LockKey): number {
  return compareBytes(a.operation, b.operation) || compareBytes(a.resource, b.resource)
}
