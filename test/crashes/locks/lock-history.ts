/**
 * Makes a history: ten clients want three locks of several servers, while servers are killed and connections cut. Then
 * all clients stop, the wait queues must come to rest, and the checker decides.
 */
import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import type { LockTimes } from '../../../src/locks/rules/index.ts'
import { createRandom, type Random } from '../random.ts'
import type { Counts } from '../stage.ts'
import { checkLocks } from './lock-checker.ts'
import { LockClient } from './lock-client.ts'
import type { LockOperation } from './lock-operation.ts'
import { type LockDoor, LockRecorder } from './lock-recorder.ts'

/** Windows are short, so that forgetful clients cost little; waiters and outcomes are kept longer than a history. */
export const historyTimes: LockTimes = {
  waiterLeaseMs: 600_000,
  streamedTakeUpMs: 80,
  takeUpMs: 160,
  keepMs: 600_000,
  lockDelayMs: 0,
  maxWaiters: 10_000,
}

export interface HistoryOptions {
  readonly seed: number
  /** The least number of calls. */
  readonly operations: number
  /** A way to the servers for each client. */
  readonly door: (client: string) => LockDoor
  /** Does its harm beside the clients; what it counted is in the end's counts. */
  readonly harm?: (random: Random) => Promise<Counts>
  readonly pauseMs?: number
}

const names = Array.from({ length: 10 }, (_, index) => `c${index}`)
const queues = ['pull', 'update', 'delete']
/** A holder that is gone costs a lease, a waiter that is gone costs a window. */
const restMs = 30_000
const lookMs = 15

export async function recordLocks(options: HistoryOptions): Promise<{
  readonly history: readonly LockOperation[]
  readonly counts: Counts
}> {
  const { seed, operations, door, harm = async () => ({}), pauseMs = 6 } = options
  const recorder = new LockRecorder()
  const seen = new Map<string, { readonly who: string; readonly token: number }>()
  const clients = names.map((name, index) => {
    const random = createRandom(seed * 100 + index)
    return new LockClient({ name, queues, door: door(name), recorder, random, seen, pauseMs })
  })
  using watcher = new Watcher(recorder, door('watcher'))
  const running = Promise.all([...clients.map((client) => client.run()), watcher.run()])
  // A failing client ends the run at once.
  const failed = running.then(() => undefined)
  const harming = harm(createRandom(seed))
  while (recorder.countOf(names) < operations) await Promise.race([sleep(20), failed])
  const counts = await Promise.race([harming, failed.then(() => ({}))])
  for (const client of clients) client.stop()
  await watcher.rest()
  await running
  return { history: await recorder.history(), counts }
}

/** Looks at every wait queue all the time, which leaves little open about what became of calls without an answer. */
class Watcher implements Disposable {
  readonly #recorder: LockRecorder
  readonly #door: LockDoor
  readonly #quiet = new Map<string, boolean>()
  #isOver = false

  constructor(recorder: LockRecorder, door: LockDoor) {
    this.#recorder = recorder
    this.#door = door
  }

  async run(): Promise<void> {
    while (!this.#isOver) {
      for (const queue of queues) {
        const answer = await this.#recorder.ask(this.#door, 'watcher', queue, { step: 'inspect' })
        const isQuiet = answer?.is === 'queue' && answer.holder === null && answer.waiters.length === 0
        this.#quiet.set(queue, isQuiet)
      }
      await sleep(lookMs)
    }
  }

  /** No client asks any more: leases expire, and waiters are granted in turn and do not come. */
  async rest(): Promise<void> {
    this.#quiet.clear()
    const isAtRest = () => queues.every((queue) => this.#quiet.get(queue))
    for (const deadline = Date.now() + restMs; !isAtRest(); await sleep(lookMs))
      assert.ok(Date.now() < deadline, `all wait queues come to rest within ${restMs} ms`)
    this.#isOver = true
  }

  [Symbol.dispose](): void {
    this.#isOver = true
  }
}

/** Records and judges; throws with what no order explains. */
export async function checkedHistory(options: HistoryOptions): Promise<Counts> {
  const { history, counts } = await recordLocks(options)
  const verdict = checkLocks(history, historyTimes)
  if (verdict.complaints.length > 0)
    throw new Error(`not linearizable (seed ${options.seed}):\n${verdict.complaints.join('\n')}`)
  const { operations, ...others } = verdict.counts
  // One wait queue with too many orders is bad luck; a history of which nothing is known shows nothing.
  assert.ok(others.undecided < others.queues, `seed ${options.seed}: no wait queue could be decided`)
  const looks = history.filter(({ client }) => client === 'watcher').length
  return { ...counts, operations: operations - looks, looks, ...others, ...answersOf(history) }
}

/** How often the answers came that the promises are about. */
function answersOf(history: readonly LockOperation[]): Counts {
  const count = (test: (operation: LockOperation) => boolean) => history.filter(test).length
  return {
    'hand-overs': count(({ answer }) => answer?.is === 'released' && answer.next !== null),
    notified: count(({ answer }) => answer?.is === 'ended'),
    refusals: count(({ answer }) => answer?.is === 'no' || answer?.is === 'refused'),
  }
}
