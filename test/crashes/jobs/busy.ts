import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { startProgram } from '../../support/services/program.ts'
import type { Ground } from '../ground.ts'
import { type Counts, createStage, someJobs } from '../stage.ts'

export interface BusyOptions {
  readonly seed: number
  readonly jobs: number
  readonly rounds: number
}

/**
 * Two worker processes share an SQLite file with a program that holds its write lock for up to a second and a half at
 * a time, longer than a lease. Waiting happens in the event loop, so no process freezes, and SQLITE_BUSY costs no effect.
 */
export async function shareFile(ground: Ground, { seed, jobs, rounds }: BusyOptions): Promise<Counts> {
  await using stage = await createStage(ground, { seed, leaseMs: 1_000 })
  await stage.startWorkers(2)
  {
    await using holder = await startProgram(process.execPath, [
      '--conditions=source',
      join(import.meta.dirname, '..', 'locks', 'holder-process.ts'),
      ground.url,
      String(seed),
      '1500',
    ])
    for (let round = 0; round < rounds; round++) {
      await stage.add(someJobs(stage.random, Math.ceil(jobs / rounds)))
      await sleep(stage.random.whole(200, 800))
      if (round % 4 === 3) await stage.look()
      if (holder.ended !== undefined) throw new Error(`the holder ended: ${holder.tail()}`)
    }
  }
  await stage.drain(30_000)
  return { rounds, ...(await stage.finish({ everyGrantSeen: true })) }
}
