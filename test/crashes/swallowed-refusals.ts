import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Ground } from './ground.ts'
import { type HistoryEvent, readHistory } from './history.ts'
import { type Counts, createStage } from './stage.ts'

export interface SwallowedRefusalsOptions {
  readonly seed: number
  readonly pauses: number
}

/**
 * A worker is stopped (SIGSTOP) past its lease, another one does the job, and the first continues. Its handler writes its
 * row in a new transaction, catches the error of the refused ack, and commits. The row exists once.
 *
 * A handler that blocks the event loop past its lease does the same before its worker can look at the clock: then the
 * store refuses the ack, and not the worker.
 */
export async function swallowRefusals(
  ground: Ground,
  { seed, pauses }: SwallowedRefusalsOptions,
): Promise<Counts> {
  const leaseMs = 700
  await using stage = await createStage(ground, { seed, leaseMs, concurrency: 2, prefetch: 0 })
  const { fleet } = stage
  await stage.startWorkers(2)
  const [first, second] = fleet.members

  for (let pause = 0; pause < pauses; pause++) {
    const slow = { kind: 'swallow', payload: { beforeMs: 400 }, maxAttempts: 1_000 }
    const blocked = { ...slow, payload: { blockMs: leaseMs * 1.5 } }
    const begun = count(ground, isBegun)
    await stage.add([slow, slow, slow, blocked])
    const until = Date.now() + 10_000
    while (count(ground, isBegun) < begun + 3 && Date.now() < until) await sleep(20)
    const stopped = pause % 2 === 0 ? first! : second!
    fleet.signal(stopped, 'SIGSTOP')
    await sleep(leaseMs * 3)
    fleet.signal(stopped, 'SIGCONT')
    await stage.look()
  }
  await stage.drain(30_000)
  const swallowed = count(ground, ({ detail }) => detail === 'swallowed lease_lost')
  assert.ok(swallowed > 0, 'handlers outlived their leases, and yet none of them was refused')
  return { pauses, swallowed, ...(await stage.finish({ everyGrantSeen: true })) }
}

const isBegun = ({ op }: HistoryEvent) => op === 'begin'

function count(ground: Ground, matches: (event: HistoryEvent) => boolean): number {
  return readHistory(ground.folder).filter(matches).length
}
