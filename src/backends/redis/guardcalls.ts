import { ErrorReply } from '@redis/client'
import type { ScriptRunner } from './connection.ts'
import { toStoreError } from './failures.ts'
import { guardsScript } from './scripts/guards.ts'

/** A step's name in the script. */
export type GuardStep = 'claim' | 'settle' | 'renew' | 'forget' | 'seen'

/** What the script answers for one step. */
export type GuardReply = string | readonly (string | number | null)[]

/**
 * Sends steps on guards to Redis. Those of one turn of the event loop go together, up to so many in one script; on a
 * cluster each by itself, for two keys may lie on two nodes. Each step is judged and answered by itself.
 */
export class GuardCalls {
  readonly #connection: ScriptRunner
  readonly #isClustered: () => boolean
  #batch: Batch | undefined
  #isScheduled = false

  constructor(connection: ScriptRunner, isClustered: () => boolean) {
    this.#connection = connection
    this.#isClustered = isClustered
  }

  step(key: string, step: GuardStep, args: readonly string[]): Promise<GuardReply> {
    this.#batch ??= { keys: [], args: [serverClock, firstTime], answers: [] }
    const { keys, args: words, answers } = this.#batch
    keys.push(key)
    words.push(step, `${args.length}`, ...args)
    const answer = Promise.withResolvers<GuardReply>()
    answers.push(answer)
    if (answers.length === stepsAtOnce || this.#isClustered()) this.#send()
    else this.#schedule()
    return answer.promise
  }

  #schedule(): void {
    if (this.#isScheduled) return
    this.#isScheduled = true
    setImmediate(() => {
      this.#isScheduled = false
      this.#send()
    })
  }

  #send(): void {
    const batch = this.#batch
    if (batch === undefined) return
    this.#batch = undefined
    const { keys, args, answers } = batch
    this.#connection.run<readonly GuardReply[]>(guardsScript, keys, args, args.with(1, secondTime)).then(
      (replies) => {
        for (const [index, reply] of replies.entries()) {
          if (reply[0] === 'error') answers[index]!.reject(toStoreError(new ErrorReply(String(reply[1]))))
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
  readonly answers: PromiseWithResolvers<GuardReply>[]
}

/** More, and others would wait for them: Redis does one script at a time. */
const stepsAtOnce = 50

const serverClock = ''
const firstTime = '0'
const secondTime = '1'
