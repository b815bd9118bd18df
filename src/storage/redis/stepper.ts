import { randomBytes } from 'node:crypto'
import { ErrorReply } from '@redis/client'
import type { LockTimes } from '../../locks/rules/index.ts'
import type { ScriptRunner } from './connection.ts'
import { toStoreError } from './failures.ts'
import type { LocatedQueue } from './keys.ts'
import type { Script } from './scripts/script.ts'
import { groupStepsScript, stepsScript } from './scripts/steps.ts'

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

/** How a step's answer is read. */
export interface Reading<Answer> {
  whole(reply: StepReply): Answer
  /** Of a step that was taken the short way (scripts/quick.ts); of a release there is the revision alone. */
  quick?(revision: number, token: number, endsAt: number): Answer
}

/** For callers that read the reply themselves. */
export const asItIs: Reading<StepReply> = { whole: (reply) => reply }

/** The wait queues whose operations exclude that of a step, or are excluded by such; its own is not among them. */
export interface StepGroup {
  readonly others: readonly LocatedQueue[]
  /** Which of them exclude each other, by number; the step's own wait queue is 1. */
  readonly pairs: string
}

/**
 * Sends steps to Redis. Steps of one turn of the event loop share a script, up to a limit: most of the cost of a small
 * script is the call itself. Each step is judged and answered alone.
 *
 * Redis answers after it has executed all it found to read, and the answered callers then ask again. With one large
 * script, client and server would work in turns, each idle while the other works. So steps go in parts. Of several
 * answers that arrive together, the second is given after the steps caused by the first were sent.
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
  readonly #unsent: Batch[] = []
  #isScheduled = false
  /** A caller has its answer, and the steps that follow from it have not been sent yet. */
  #isAnswering = false
  /** Came meanwhile, the oldest first. */
  readonly #unanswered: { readonly pending: readonly Pending[]; readonly replies: readonly unknown[] }[] = []
  #calls = 0
  /** The words of settings, which are the same for nearly all calls. */
  readonly #settings = new WeakMap<LockTimes, readonly string[]>()

  /** `now` is for tests that move the clock by hand; without it the server's own counts. */
  constructor(connection: ScriptRunner, isClustered: () => boolean, now?: () => number) {
    this.#connection = connection
    this.#isClustered = isClustered
    this.#now = now
  }

  step<Answer>(
    { key, shard }: LocatedQueue,
    step: StepName,
    args: readonly string[],
    times: LockTimes,
    group: StepGroup | undefined,
    reading: Reading<Answer>,
  ): Promise<Answer> {
    const batch = this.#batchFor(times, this.#isClustered() ? shard : 0, group !== undefined)
    batch.keys.push(key)
    if (group) {
      batch.args.push(step, ...args)
      for (const other of group.others) batch.keys.push(other.key)
      batch.args.push(`${group.others.length + 1}`, group.pairs)
    } else addWords(batch, step, args)
    this.#schedule()
    return new Promise((resolve, reject) => {
      batch.pending.push({ reading, resolve, reject } as Pending)
    })
  }

  /** The time in microseconds, or nothing for the server's. */
  get clock(): string {
    return this.#now ? `${this.#now() * 1_000}` : ''
  }

  /** What stands before the steps of a call. */
  #head(times: LockTimes): string[] {
    let settings = this.#settings.get(times)
    if (settings === undefined) {
      const { waiterLeaseMs, streamedTakeUpMs, takeUpMs, keepMs, lockDelayMs, maxWaiters } = times
      settings = [waiterLeaseMs, streamedTakeUpMs, takeUpMs, keepMs, lockDelayMs, maxWaiters].map(String)
      this.#settings.set(times, settings)
    }
    return [this.clock, '0', self + (this.#calls++).toString(36), ...settings]
  }

  #batchFor(times: LockTimes, shard: number, isGrouped: boolean): Batch {
    const batches = this.#open.get(times) ?? new Map<number, Batch>()
    this.#open.set(times, batches)
    const place = isGrouped ? -1 - shard : shard
    const open = batches.get(place)
    if (open && !open.isSent && open.pending.length < stepsAtOnce) return open
    const script = isGrouped ? groupStepsScript : stepsScript
    const batch: Batch = {
      script,
      keys: [],
      args: this.#head(times),
      pending: [],
      run: undefined,
      isSent: false,
    }
    batches.set(place, batch)
    this.#unsent.push(batch)
    return batch
  }

  #schedule(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    setImmediate(() => {
      this.#isScheduled = false
      this.#flush()
    })
  }

  /** Sends a part of what there is, and the next in another turn. */
  #flush(): void {
    let sent = 0
    while (sent < stepsAtOnce) {
      const batch = this.#unsent.shift()
      if (batch === undefined) {
        this.#open.clear()
        return
      }
      batch.isSent = true
      sent += batch.pending.length
      this.#send(batch)
    }
    this.#schedule()
  }

  #answer(pending: readonly Pending[], replies: readonly unknown[]): void {
    if (this.#isAnswering) {
      this.#unanswered.push({ pending, replies })
      return
    }
    this.#isAnswering = true
    let at = 0
    for (const step of pending) at = answer(step, replies, at)
    // After all that those who were answered do at once. The driver writes at the end of the turn; what is set off here
    // comes behind that.
    process.nextTick(() => {
      this.#flush()
      setImmediate(() => {
        this.#isAnswering = false
        const next = this.#unanswered.shift()
        if (next) this.#answer(next.pending, next.replies)
      })
    })
  }

  #send({ script, keys, args, pending }: Batch): void {
    const again = args.with(sentAgainAt, '1')
    this.#connection.run<readonly unknown[]>(script, keys, args, again).then(
      (replies) => this.#answer(pending, replies),
      (error) => {
        for (const { reject } of pending) reject(error)
      },
    )
  }
}

function addWords(batch: Batch, step: StepName, words: readonly string[]): void {
  const { args, run } = batch
  const ownCount = ownWords[step]
  if (ownCount === undefined) {
    args.push(step, ...words)
    batch.run = undefined
    return
  }
  if (run !== undefined && run.step === step && isOnTerms(run.words, words, ownCount)) {
    args[run.countAt] = `${++run.count}`
  } else {
    args.push(`${step}s`, '1')
    batch.run = { step, words, countAt: args.length - 1, count: 1 }
    for (let at = ownCount; at < words.length; at++) args.push(words[at]!)
  }
  for (let at = 0; at < ownCount; at++) args.push(words[at]!)
}

function isOnTerms(one: readonly string[], other: readonly string[], ownCount: number): boolean {
  for (let at = ownCount; at < one.length; at++) if (one[at] !== other[at]) return false
  return true
}

/** How many words of a step are its own; those behind them are its terms. Of other steps every word is said. */
const ownWords: Partial<Record<StepName, number>> = { acquire: 1, release: 2 }

/** Gives a step its answer, which begins here in the list of all; scripts/steps.ts says how. Answers where the next begins. */
function answer({ reading, resolve, reject }: Pending, replies: readonly unknown[], at: number): number {
  const count = replies[at] as number
  if (count <= 0) {
    const [revision, token, endsAt] = [replies[at + 1], replies[at + 2], replies[at + 3]] as number[]
    resolve(reading.quick!(revision!, token!, endsAt!))
    return at + (count === 0 ? 4 : 2)
  }
  const end = at + 1 + count
  if (count === 1) reject(toStoreError(new ErrorReply(replies[at + 1] as string)))
  else resolve(reading.whole(readReply(replies, at + 1, end)))
  return end
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
  readonly script: Script
  readonly keys: string[]
  readonly args: string[]
  readonly pending: Pending[]
  /** The last steps, when they are of a kind whose terms are said once (scripts/settings.ts). */
  run: Run | undefined
  isSent: boolean
}

/** Steps that follow each other on the same terms. */
interface Run {
  readonly step: StepName
  readonly words: readonly string[]
  readonly countAt: number
  count: number
}

/** A step that waits for its answer. */
interface Pending {
  readonly reading: Reading<unknown>
  resolve(answer: unknown): void
  reject(error: unknown): void
}

/** More, and others would wait for them: Redis does one script at a time. */
const stepsAtOnce = 24

/** Where in the arguments it says that they were sent before. */
const sentAgainAt = 1

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
