/** One engine with wait queues for the tests, in real time, with spans that end soon or never. */
import assert from 'node:assert/strict'
import type { LockKey, LockStore, WaitQueueView } from '../../../src/locks/index.ts'
import type { AcquireRequest, LockTimes, Requester, Standing } from '../../../src/locks/rules/index.ts'
import { createPause } from '../../support/pause.ts'
import type { LocksStores } from './opening.ts'

/** Longer than any test. */
export const longMs = 600_000
/** A span that expires during a test; used only in tests of expiry. */
export const shortMs = 60
/** The greatest difference of two clock readings of the same moment: the wall clock and the lease clock are two. */
export const clockMs = 15

export const longTimes: LockTimes = {
  waiterLeaseMs: longMs,
  streamedTakeUpMs: longMs,
  takeUpMs: longMs,
  keepMs: longMs,
  lockDelayMs: 0,
  maxWaiters: 10_000,
}

/** The options of an ask that a test may set; the defaults are long, and wait. */
export type AskOptions = Partial<AcquireRequest> & { readonly times?: Partial<LockTimes> }

type Granted = Extract<Standing, { readonly status: 'granted' }>

/** The wait queue of a name; two names are two operations on one resource. */
export type WaitQueueName = string | LockKey

export class Stage {
  readonly store: LockStore
  #probes = 0

  constructor({ locks }: LocksStores) {
    this.store = locks
  }

  /** Asks, by default with a request of the node's name. */
  async ask(queue: WaitQueueName, node: string, options: AskOptions = {}): Promise<Standing> {
    const { times, ...ask } = options
    const whole: AcquireRequest = {
      node,
      requestId: node,
      wait: true,
      want: 'result',
      ttlMs: longMs,
      deadlineMs: null,
      isStreamed: false,
      ...ask,
    }
    const { standing } = await this.store.acquire(keyOf(queue), whole, { ...longTimes, ...times })
    return standing
  }

  /** Asks and is granted. */
  async granted(queue: WaitQueueName, node: string, options?: AskOptions): Promise<Granted> {
    const standing = await this.ask(queue, node, options)
    assert.equal(standing.status, 'granted', `${node} has ${JSON.stringify(queue)}`)
    return standing as Granted
  }

  /** Asks, and checks the position in the wait queue. */
  async queued(queue: WaitQueueName, node: string, position: number, options?: AskOptions): Promise<void> {
    assert.deepEqual(await this.ask(queue, node, options), { status: 'queued', position }, `${node} waits`)
  }

  /** Asks until it is granted. */
  async becomes(queue: WaitQueueName, node: string, options?: AskOptions): Promise<Granted> {
    let standing: Standing | undefined
    await until(`${node} is granted`, async () => {
      standing = await this.ask(queue, node, options)
      return standing.status === 'granted'
    })
    return standing as Granted
  }

  /** Ends a turn; by default its value is the JSON of the outcome's name. */
  async end(
    queue: WaitQueueName,
    node: string,
    token: number,
    outcome: 'success' | 'failure',
    options: {
      readonly terminal?: boolean
      readonly value?: string | null
      readonly requestId?: string
    } = {},
  ): ReturnType<LockStore['release']> {
    const { terminal = false, value = JSON.stringify(outcome), requestId = node } = options
    const who = { node, requestId, token }
    return this.store.release(keyOf(queue), who, { outcome, value, terminal }, longTimes)
  }

  async look(queue: WaitQueueName): Promise<WaitQueueView> {
    const view = await this.store.inspect(keyOf(queue), 10_000)
    assert.ok(view, `${JSON.stringify(queue)} is known`)
    return view
  }

  /** The waiters, in order. */
  async queue(queue: WaitQueueName): Promise<readonly string[]> {
    return (await this.look(queue)).waiters.map(({ node }) => node)
  }

  /** Waits until the store's clock has moved by this much: a lease taken now has expired. */
  async pass(ms: number): Promise<void> {
    const probe = { operation: 'probe', resource: `${this.#probes++}` }
    await this.granted(probe, 'probe', { ttlMs: ms })
    await until(`the store's clock moves by ${ms} ms`, async () => !(await this.look(probe)).holder)
    // Any step brings a wait queue to the present; a sweep finds no expired probe afterwards.
    await this.store.leave(probe, named('probe'), longTimes)
  }

  /** Waits until the holder's lease has expired, as the store sees it. */
  async lapsed(queue: WaitQueueName): Promise<void> {
    await until('the lease runs out', async () => !(await this.look(queue)).holder)
  }
}

export function keyOf(queue: WaitQueueName): LockKey {
  return typeof queue === 'string' ? { operation: queue, resource: 'resource123' } : queue
}

export function named(node: string): Requester {
  return { node, requestId: node }
}

/** Waits for a condition. Fails with its name when it never holds. */
export async function until(what: string, isSo: () => Promise<boolean>, ms = 10_000): Promise<void> {
  const deadline = Date.now() + ms
  const pause = createPause()
  while (!(await isSo())) {
    assert.ok(Date.now() < deadline, `${what} within ${ms} ms`)
    await pause()
  }
}

/** Runs it for all items, a limited number at a time. */
export async function inHands<Item>(
  items: readonly Item[],
  hands: number,
  work: (item: Item) => Promise<unknown>,
): Promise<void> {
  const rest = items.values()
  await Promise.all(
    Array.from({ length: hands }, async () => {
      for (const item of rest) await work(item)
    }),
  )
}
