import { ErrorReply } from '@redis/client'
import type { GuardAsk } from '../../once/guard-store.ts'
import type { ScriptRunner } from './connection.ts'
import { toStoreError } from './failures.ts'
import { guardsScript } from './scripts/guards.ts'

/** A step's name in the script, but for claims, which have a form of their own. */
export type GuardStep = 'settle' | 'renew' | 'forget' | 'seen'

/** What the script answers for one step; a number alone: the key was free, and is claimed with this one. */
export type GuardReply = number | readonly (string | number | null)[]

/**
 * Sends steps on guards to Redis. Steps of one turn of the event loop share a script, up to a limit. On a cluster each
 * step has a script, because two keys may be on two nodes. Each step is judged and answered alone.
 *
 * Consecutive claims with the same terms form one group, which sends its terms once: most of the cost of a small step is
 * the text it sends.
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

  /** Asks for a key. A nonce has 16 characters. */
  claim(call: StepAnswers, key: string, nonce: string, ask: GuardAsk): void {
    const batch = this.#batchFor(call, key)
    const { words, group } = batch
    if (group !== undefined && isOnTerms(ask, group.ask)) {
      words[group.noncesAt] += nonce
    } else {
      const { leaseMs, keepMs, mode, fingerprint } = ask
      const how = mode === 'at-most-once' ? 'm' : 'l'
      const print = fingerprint === null ? '-' : `+${fingerprint}`
      words.push('claim', `${leaseMs}`, `${keepMs}`, how, print, nonce)
      batch.group = { ask, noncesAt: words.length - 1 }
    }
    this.#sendSoon(batch)
  }

  step(call: StepAnswers, key: string, step: GuardStep, args: readonly string[]): void {
    const batch = this.#batchFor(call, key)
    batch.words.push(step, ...args)
    batch.group = undefined
    this.#sendSoon(batch)
  }

  #batchFor(call: StepAnswers, key: string): Batch {
    this.#batch ??= { keys: [], words: [serverClock, firstTime], calls: [], places: [], group: undefined }
    const batch = this.#batch
    batch.keys.push(key)
    batch.calls.push(call)
    batch.places.push(call.nextPlace())
    return batch
  }

  #sendSoon(batch: Batch): void {
    if (batch.keys.length === stepsAtOnce || this.#isClustered()) this.#send()
    else if (!this.#isScheduled) {
      this.#isScheduled = true
      setImmediate(() => {
        this.#isScheduled = false
        this.#send()
      })
    }
  }

  #send(): void {
    const batch = this.#batch
    if (batch === undefined) return
    this.#batch = undefined
    const { keys, words, calls, places } = batch
    this.#connection.run<readonly GuardReply[]>(guardsScript, keys, words, words.with(1, secondTime)).then(
      (replies) => {
        for (let at = 0; at < calls.length; at++) calls[at]!.answered(places[at]!, replies[at]!)
      },
      (error) => {
        for (const call of calls) call.failed(error)
      },
    )
  }
}

/** Where the answers to steps go, each to its position. */
type StepAnswers = Pick<GuardCall<unknown>, 'nextPlace' | 'answered' | 'failed'>

/** A call of the store's: one answer when all of its steps have theirs, also where one of them failed. */
export class GuardCall<Answer> {
  readonly #asked = Promise.withResolvers<Answer>()
  readonly #decode: (replies: readonly GuardReply[]) => Answer
  readonly #replies: GuardReply[] = []
  #placeCount = 0
  #answerCount = 0
  #error: unknown

  constructor(decode: (replies: readonly GuardReply[]) => Answer) {
    this.#decode = decode
  }

  get answer(): Promise<Answer> {
    return this.#asked.promise
  }

  /** All steps of a call are begun before the first of them can be answered. */
  nextPlace(): number {
    return this.#placeCount++
  }

  answered(place: number, reply: GuardReply): void {
    if (typeof reply !== 'number' && reply[0] === 'error') {
      this.failed(toStoreError(new ErrorReply(String(reply[1]))))
      return
    }
    this.#replies[place] = reply
    this.#count()
  }

  failed(error: unknown): void {
    this.#error ??= error
    this.#count()
  }

  #count(): void {
    if (++this.#answerCount < this.#placeCount) return
    if (this.#error === undefined) this.#asked.resolve(this.#decode(this.#replies))
    else this.#asked.reject(this.#error)
  }
}

interface Batch {
  readonly keys: string[]
  readonly words: string[]
  /** For each step, whose it is and which of its steps. */
  readonly calls: StepAnswers[]
  readonly places: number[]
  /** The last steps, when they are claims: on which terms, and where their nonces are. */
  group: { readonly ask: GuardAsk; readonly noncesAt: number } | undefined
}

function isOnTerms(one: GuardAsk, other: GuardAsk): boolean {
  return (
    one.leaseMs === other.leaseMs &&
    one.keepMs === other.keepMs &&
    one.mode === other.mode &&
    one.fingerprint === other.fingerprint
  )
}

/** More, and others would wait for them: Redis does one script at a time. */
const stepsAtOnce = 50

const serverClock = ''
const firstTime = '0'
const secondTime = '1'
