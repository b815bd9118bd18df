import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Ground } from '../ground.ts'
import { readHistory } from '../history.ts'
import { type Counts, createStage, someJobs } from '../stage.ts'

export interface PausesOptions {
  readonly seed: number
  readonly pauses: number
  readonly jobs: number
}

/**
 * A worker is stopped (SIGSTOP) for longer than its leases last, and then continues as if no time had passed. Other
 * workers have run its jobs by then; its late writes are refused. A worker on SQLite may be stopped while it has the
 * file's write lock, which delays all others until it continues, and breaks nothing.
 *
 * A handler that blocks the event loop for longer than a lease has the same effect from within, and is harder: its
 * transaction comes before the worker has had a chance to look at the clock, so only the store can refuse it.
 */
export async function pauseWorkers(ground: Ground, { seed, pauses, jobs }: PausesOptions): Promise<Counts> {
  const leaseMs = 700
  await using stage = await createStage(ground, { seed, leaseMs })
  const { random, fleet } = stage
  await stage.startWorkers(2)

  for (let pause = 0; pause < pauses; pause++) {
    const slow = { kind: 'transaction', payload: { beforeMs: 300 }, maxAttempts: 1_000 }
    const blocked = { ...slow, payload: { blockMs: leaseMs * 1.5 } }
    await stage.add([...someJobs(random, Math.ceil(jobs / pauses)), slow, slow, blocked])
    await sleep(random.whole(100, 500))
    const member = random.pick(fleet.members)
    fleet.signal(member, 'SIGSTOP')
    await sleep(leaseMs * 2 + random.whole(0, 400))
    fleet.signal(member, 'SIGCONT')
    await stage.look()
  }
  await stage.drain(30_000)
  const refused = readHistory(ground.folder).filter(({ op, detail }) => {
    return op === 'transact' && detail?.startsWith('lease_lost')
  }).length
  assert.ok(refused > 0, 'handlers outlived their leases, and yet the store refused none of them')
  return { pauses, refused, ...(await stage.finish({ everyGrantSeen: true })) }
}
