import { randomBytes } from 'node:crypto'
import { ErrorReply } from '@redis/client'
import type { LockTimes } from '../../locks/rules/index.ts'
import { toStoreError } from './client.ts'
import type { ScriptRunner } from './connection.ts'
import type { LocatedQueue } from './keys.ts'
import { stepsScript } from './scripts/steps.ts'

/** A step's name in the script. */
export type StepName =
  | 'acquire'
  | 'release'
  | 'renew'
  | 'shorten'
  | 'leave'
  | 'evict'
  | 'keep'
  | 'expire'
  | 'sweep'
  | 'inspect'
  | 'fail'
  | 'holding'

/** What the script answers to one step: whether the wait queue changed, what ended in it, its revision, whom to notify, and the answer. */
export type StepReply = readonly [
  isChanged: number,
  /** 1: all waiters got the end. 2: a lease ran out. */
  ended: number,
  revision: number,
  notified: readonly string[],
  answer: readonly unknown[],
  /** What changed in wait queues of the same resource that exclude it: their names, what ended there, and whom to notify. */
  elsewhere?: readonly (readonly [name: string, ended: number, notified: readonly string[]])[],
]

/** The wait queues whose operations exclude that of a step, or are excluded by such; its own is not among them. */
export interface StepGroup {
  readonly others: readonly LocatedQueue[]
  /** Which of them exclude each other, by number; the step's own wait queue is 1. */
  readonly pairs: string
}

/**
 * Sends steps to Redis. Steps of one turn of the event loop share a script, up to a limit: most of the cost of a small
 * script is the call itself. Each step is judged and answered alone.
 */
export class Stepper {
  readonly #connection: ScriptRunner
  readonly #isClustered: () => boolean
  readonly #now: (() => number) | undefined
  /**
   * Those that take more steps, by how long things last, and on a cluster by shard: a script is told the one, and may
   * touch one of the other.
   */
  readonly #open = new Map<LockTimes, Map<number, Batch>>()
  /** All that have not been sent yet, the oldest first. */
  #unsent: Batch[] = []
  #calls = 0

  /** `now` is for tests that move the clock by hand; without it the server's own counts. */
  constructor(connection: ScriptRunner, isClustered: () => boolean, now?: () => number) {
    this.#connection = connection
    this.#isClustered = isClustered
    this.#now = now
  }

  step(
    { key, shard }: LocatedQueue,
    step: StepName,
    args: readonly string[],
    times: LockTimes,
    group?: StepGroup,
  ): Promise<StepReply> {
    const batch = this.#batchFor(times, this.#isClustered() ? shard : 0)
    batch.keys.push(key)
    batch.args.push(step, group ? `${group.others.length} ${group.pairs}` : '', ...args)
    if (group) batch.keys.push(...group.others.map((other) => other.key))
    return new Promise((resolve, reject) => {
      batch.pending.push({ who: args[0]!, resolve, reject })
    })
  }

  /** The time in microseconds, or nothing for the server's. */
  get clock(): string {
    return this.#now ? `${this.#now() * 1_000}` : ''
  }

  #batchFor(times: LockTimes, shard: number): Batch {
    const batches = this.#open.get(times) ?? new Map<number, Batch>()
    this.#open.set(times, batches)
    const open = batches.get(shard)
    if (open && open.pending.length < stepsAtOnce) return open
    const { waiterLeaseMs, streamedTakeUpMs, takeUpMs, keepMs, lockDelayMs, maxWaiters } = times
    const settings = [waiterLeaseMs, streamedTakeUpMs, takeUpMs, keepMs, lockDelayMs, maxWaiters].map(String)
    const args = [this.clock, firstTime, self + (this.#calls++).toString(36), ...settings]
    const batch: Batch = { keys: [], args, pending: [] }
    batches.set(shard, batch)
    this.#unsent.push(batch)
    if (this.#unsent.length === 1) setImmediate(() => this.#sendAll())
    return batch
  }

  #sendAll(): void {
    const batches = this.#unsent
    this.#unsent = []
    this.#open.clear()
    for (const { keys, args, pending } of batches) {
      this.#connection
        .run<readonly unknown[]>(stepsScript, keys, args, args.with(sentAgainAt, secondTime))
        .then((replies) => answerAll(pending, replies))
        .catch((error: unknown) => {
          for (const { reject } of pending) reject(error)
        })
    }
  }
}

/** Gives each step its answer out of the list of all; scripts/steps.ts says how it is built. */
function answerAll(pending: readonly Pending[], replies: readonly unknown[]): void {
  let at = 0
  for (const { who, resolve, reject } of pending) {
    const count = replies[at] as number
    const [revision, token, endsAt] = [replies[at + 1], replies[at + 2], replies[at + 3]] as number[]
    if (count === 1) reject(toStoreError(new ErrorReply(replies[at + 1] as string)))
    else if (count === 0) resolve([1, 0, revision!, [who], ['granted', token, endsAt, 1]])
    else if (count === -1) resolve([1, 0, revision!, [], ['released', null]])
    else resolve(readReply(replies, at + 1, at + 1 + count))
    at += count > 0 ? 1 + count : count === 0 ? 4 : 2
  }
}

/** One reply out of the list of all; in the long form. */
function readReply(replies: readonly unknown[], at: number, end: number): StepReply {
  const flags = replies[at] as number
  const answerAt = at + 3 + (replies[at + 2] as number)
  const hasElsewhere = (flags & 8) !== 0
  const reply = [
    flags & 1,
    (flags >> 1) & 3,
    replies[at + 1] as number,
    replies.slice(at + 3, answerAt) as string[],
    replies.slice(answerAt, hasElsewhere ? end - 1 : end),
  ] as const
  return hasElsewhere ? [...reply, replies[end - 1] as NonNullable<StepReply[5]>] : reply
}

interface Batch {
  readonly keys: string[]
  readonly args: string[]
  readonly pending: Pending[]
}

/** A step that waits for its answer. */
interface Pending {
  /** The first of its arguments: the requester, where it has one. */
  readonly who: string
  resolve(reply: StepReply): void
  reject(error: unknown): void
}

/** More, and others would wait for them: Redis does one script at a time. */
const stepsAtOnce = 24

/** Where in the arguments it says that they were sent before. */
const sentAgainAt = 1
const firstTime = '0'
const secondTime = '1'

/** Begins the ids of all calls of this process. */
const self = randomBytes(6).toString('hex')

/** Looking changes nothing, so nothing of this is used. */
export const anyTimes: LockTimes = {
  waiterLeaseMs: 0,
  streamedTakeUpMs: 0,
  takeUpMs: 0,
  keepMs: 0,
  lockDelayMs: 0,
  maxWaiters: 0,
}
