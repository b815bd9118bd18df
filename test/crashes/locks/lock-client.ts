/**
 * A node that wants locks: it asks, waits, keeps its position or leaves, works, renews, and ends its turn with success or
 * failure. Sometimes it forgets a lock, releases another node's lock, or an operator evicts a node. Without an answer it
 * asks again, as a client does, or does something else.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Random } from '../random.ts'
import type { LockAnswer, LockCall } from './lock-operation.ts'
import type { LockDoor, LockRecorder } from './lock-recorder.ts'

export interface LockClientOptions {
  readonly name: string
  readonly queues: readonly string[]
  readonly door: LockDoor
  readonly recorder: LockRecorder
  readonly random: Random
  /** The last known state of each wait queue, for clients that interfere. */
  readonly seen: Map<string, { readonly who: string; readonly token: number }>
  /** Between calls, at most. */
  readonly pauseMs: number
}

export class LockClient {
  readonly #own: LockClientOptions
  #requests = 0
  #isOver = false

  constructor(own: LockClientOptions) {
    this.#own = own
  }

  /** Continues until it is stopped. */
  async run(): Promise<void> {
    while (!this.#isOver) await this.#want()
  }

  stop(): void {
    this.#isOver = true
  }

  async #ask(queue: string, call: LockCall): Promise<LockAnswer | undefined> {
    const { door, recorder, random, name, pauseMs, seen } = this.#own
    await sleep(random.whole(0, pauseMs))
    const answer = await recorder.ask(door, name, queue, call)
    if (answer?.is === 'granted' && call.step !== 'inspect')
      seen.set(queue, { who: call.who, token: answer.token })
    return answer
  }

  /** Asks again until there is an answer, as a client with patience does. */
  async #insist(queue: string, call: LockCall): Promise<LockAnswer | undefined> {
    for (let tries = 0; tries < 5; tries++) {
      const answer = await this.#ask(queue, call)
      if (answer !== undefined) return answer
      if (this.#own.random() < 0.2) return undefined
    }
    return undefined
  }

  async #want(): Promise<void> {
    const { random, queues, name } = this.#own
    const queue = random.pick(queues)
    if (random() < 0.12) return await this.#meddle(queue)
    const who = random() < 0.3 ? name : `${name}.${++this.#requests}`
    const acquire: LockCall = {
      step: 'acquire',
      who,
      wait: random() < 0.85,
      want: random() < 0.6 ? 'result' : 'turn',
      ttlMs: random.pick([150, 300, 800]),
      deadlineMs: random() < 0.8 ? null : random.whole(50, 400),
      isStreamed: random() < 0.4,
    }
    let answer = await this.#insist(queue, acquire)
    for (let looks = 0; answer?.is === 'queued' && looks < 200; looks++) {
      const chance = random()
      if (chance < 0.01) return
      if (chance < 0.03) answer = await this.#insist(queue, { step: 'leave', who })
      else if (chance < 0.4)
        answer = await this.#insist(queue, { step: 'keep', who, isStreamed: random() < 0.5 })
      else answer = await this.#insist(queue, acquire)
      if (!this.#isOver) await sleep(random.whole(0, 10 * this.#own.pauseMs))
    }
    if (answer?.is === 'granted') await this.#work(queue, who, answer.token)
  }

  async #work(queue: string, who: string, token: number): Promise<void> {
    const { random, pauseMs } = this.#own
    // Forgotten: its lease, or the time to take it up, will run out.
    if (random() < 0.04) return
    // Asleep for longer than its lease: what it does then must not count.
    if (random() < 0.04) await sleep(random.whole(150, 400))
    while (random() < 0.35) {
      await sleep(random.whole(0, 3 * pauseMs))
      const chance = random()
      if (chance < 0.7)
        await this.#insist(queue, { step: 'renew', who, token, ttlMs: random.pick([300, 900]) })
      else if (chance < 0.8)
        await this.#ask(queue, { step: 'shorten', who, token, toMs: random.whole(0, 80) })
      else await this.#ask(queue, { step: 'inspect' })
    }
    const outcome = random() < 0.4 ? 'success' : 'failure'
    await this.#insist(queue, {
      step: 'release',
      who,
      token,
      outcome,
      terminal: outcome === 'failure' && random() < 0.15,
      value: JSON.stringify(`${who} ${token}`),
    })
  }

  /** Does what it should not, or what operators do. */
  async #meddle(queue: string): Promise<void> {
    const { random, name, seen } = this.#own
    const last = seen.get(queue)
    if (last === undefined || random() < 0.4) return void (await this.#ask(queue, { step: 'inspect' }))
    const { who, token } = last
    const release = { step: 'release', outcome: 'failure', terminal: false, value: '"meddler"' } as const
    const calls: readonly LockCall[] = [
      { ...release, who: name, token },
      { ...release, who, token: token + 1 },
      { step: 'renew', who: name, token, ttlMs: 5_000 },
      { step: 'leave', who },
      { step: 'evict', who },
      // The same release as the holder makes it: one of the two takes.
      { ...release, who, token },
    ]
    await this.#ask(queue, random.pick(calls))
  }
}
