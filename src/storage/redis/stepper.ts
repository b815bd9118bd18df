import { randomBytes } from 'node:crypto'
import { ErrorReply } from '@redis/client'
import type { LockTimes } from '../../locks/rules/index.ts'
import { toStoreError } from './client.ts'
import type { ScriptRunner } from './connection.ts'
import type { LocatedQueue } from './keys.ts'
import { stepsScript } from './scripts/steps.ts'

/** The name of a step in the script. */
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

/**
 * The script's answer to one step: the changes of the wait queue, its revision, the requesters to notify, and the
 * answer.
 */
export type StepReply = readonly [
  isChanged: number,
  /** 1: all waiters got the end. 2: a lease expired. */
  ended: number,
  revision: number,
  notified: readonly string[],
  answer: readonly unknown[],
  /**
   * The changes of wait queues of the same resource that exclude this one: their names, what ended there, and the
   * requesters to notify.
   */
  elsewhere?: readonly (readonly [name: string, ended: number, notified: readonly string[]])[],
]

/** The wait queues whose operations exclude that of a step, or are excluded by them, without the step's own. */
export interface StepGroup {
  readonly others: readonly LocatedQueue[]
  /** The pairs that exclude each other, by number. The step's own wait queue is number 1. */
  readonly pairs: string
}

/**
 * Sends steps to Redis. Steps of one turn of the event loop share a script, up to a limit: most of the cost of a small
 * script is the call itself. A step that comes while no script is in flight leaves in its own turn: its caller is mostly
 * alone. Each step has its own result.
 */
export class Stepper {
  readonly #connection: ScriptRunner
  readonly #isClustered: () => boolean
  readonly #now: (() => number) | undefined
  /**
   * Batches that accept more steps, by lock times, and on a cluster by shard: a script has one set of lock times, and
   * may use one shard.
   */
  readonly #open = new Map<LockTimes, Map<number, Batch>>()
  /** All unsent batches, the oldest first. */
  #unsent: Batch[] = []
  #inFlight = 0
  #calls = 0

  /** `now` is for tests that set the clock. Without it the server's own clock counts. */
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

  /** The time in microseconds, or empty for the server's clock. */
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
    if (this.#unsent.length === 1) {
      const send = () => this.#sendAll()
      if (this.#inFlight === 0) queueMicrotask(send)
      else setImmediate(send)
    }
    return batch
  }

  #sendAll(): void {
    const batches = this.#unsent
    this.#unsent = []
    this.#open.clear()
    for (const { keys, args, pending } of batches) {
      this.#inFlight++
      this.#connection
        .run<readonly unknown[]>(stepsScript, keys, args, args.with(sentAgainAt, secondTime))
        .finally(() => this.#inFlight--)
        .then((replies) => answerAll(pending, replies))
        .catch((error: unknown) => {
          for (const { reject } of pending) reject(error)
        })
    }
  }
}

/** Gives each step its answer from the list of all answers. scripts/steps.ts defines the format. */
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

/** Reads one reply from the list, and expands the short form. */
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
  /** The first of its arguments: the requester, if it has one. */
  readonly who: string
  resolve(reply: StepReply): void
  reject(error: unknown): void
}

/** A longer script would delay other callers, because Redis runs one script at a time. */
const stepsAtOnce = 24

/** The index of the argument that marks a repetition. */
const sentAgainAt = 1
const firstTime = '0'
const secondTime = '1'

/** The prefix of the ids of all calls of this process. */
const self = randomBytes(6).toString('hex')

/** Reads change nothing, so no script uses these times. */
export const anyTimes: LockTimes = {
  waiterLeaseMs: 0,
  streamedTakeUpMs: 0,
  takeUpMs: 0,
  keepMs: 0,
  lockDelayMs: 0,
  maxWaiters: 0,
}
