import { randomBytes } from 'node:crypto'
import { ErrorReply } from '@redis/client'
import type { LineTimes } from '../../lines/index.ts'
import type { ScriptRunner } from './connection.ts'
import { toStoreError } from './failures.ts'
import type { LinePlace } from './keys.ts'
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

/** What the script answers for one step: whether the line changed, whether all were told, its revision, who, and what. */
export type StepReply = readonly [
  isChanged: number,
  isEveryone: number,
  revision: number,
  told: readonly string[],
  answer: readonly unknown[],
]

/**
 * Sends steps to Redis. Those of one turn of the event loop go together, up to so many in one script: most of what a
 * small script costs, on either side, is to be called at all. Each step is judged by itself and answered by itself.
 */
export class Stepper {
  readonly #connection: ScriptRunner
  readonly #isClustered: () => boolean
  readonly #now: (() => number) | undefined
  /** By how long things last, and on a cluster by shard: a script is told the one, and may touch one of the other. */
  readonly #batches = new Map<LineTimes, Map<number, Batch>>()
  #isScheduled = false
  #calls = 0

  /** `now` is for tests that move the clock by hand; without it the server's own counts. */
  constructor(connection: ScriptRunner, isClustered: () => boolean, now?: () => number) {
    this.#connection = connection
    this.#isClustered = isClustered
    this.#now = now
  }

  step(
    { keys, shard, name }: LinePlace,
    step: StepName,
    args: readonly string[],
    times: LineTimes,
  ): Promise<StepReply> {
    const batch = this.#batchFor(times, this.#isClustered() ? shard : 0)
    batch.keys.push(...keys)
    batch.args.push(step, name, `${self}${(this.#calls++).toString(36)}`, `${args.length}`, ...args)
    const answer = Promise.withResolvers<StepReply>()
    batch.answers.push(answer)
    this.#schedule()
    return answer.promise
  }

  /** The time in microseconds, or nothing for the server's. */
  get clock(): string {
    return this.#now ? `${this.#now() * 1_000}` : ''
  }

  #settings({
    waiterLeaseMs,
    streamedTakeUpMs,
    takeUpMs,
    keepMs,
    lockDelayMs,
    maxWaiters,
  }: LineTimes): string[] {
    const settings = [waiterLeaseMs, streamedTakeUpMs, takeUpMs, keepMs, lockDelayMs, maxWaiters]
    return [this.clock, '0', ...settings.map(String)]
  }

  #batchFor(times: LineTimes, group: number): Batch {
    const batches = this.#batches.get(times) ?? new Map<number, Batch>()
    this.#batches.set(times, batches)
    let batch = batches.get(group)
    if (batch && batch.answers.length >= stepsAtOnce) {
      this.#send(batch)
      batch = undefined
    }
    batch ??= { keys: [], args: this.#settings(times), answers: [] }
    batches.set(group, batch)
    return batch
  }

  #schedule(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    setImmediate(() => {
      this.#isScheduled = false
      const batches = [...this.#batches.values()].flatMap((groups) => [...groups.values()])
      this.#batches.clear()
      for (const batch of batches) this.#send(batch)
    })
  }

  #send({ keys, args, answers }: Batch): void {
    const again = args.with(sentAgainAt, '1')
    this.#connection.run<readonly (StepReply | readonly [string])[]>(stepsScript, keys, args, again).then(
      (replies) => {
        for (const [index, reply] of replies.entries()) {
          if (reply.length === 1) answers[index]!.reject(toStoreError(new ErrorReply(reply[0])))
          else answers[index]!.resolve(reply)
        }
      },
      (error) => {
        for (const { reject } of answers) reject(error)
      },
    )
  }
}

interface Batch {
  readonly keys: string[]
  readonly args: string[]
  readonly answers: PromiseWithResolvers<StepReply>[]
}

/** More, and others would wait for them: Redis does one script at a time. */
const stepsAtOnce = 32

/** Where in the arguments it says that they were sent before. */
const sentAgainAt = 1

/** Begins the ids of all calls of this process. */
const self = randomBytes(6).toString('hex')
