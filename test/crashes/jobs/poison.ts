import assert from 'node:assert/strict'
import type { Ground } from '../ground.ts'
import { readHistory } from '../history.ts'
import { type Counts, createStage, someJobs } from '../stage.ts'

export interface PoisonOptions {
  readonly seed: number
  readonly poisons: number
  readonly jobs: number
}

/**
 * Some jobs kill the process that runs them, every time. Each ends dead after exactly `maxAttempts` grants, because an
 * attempt counts from its claim on; all others complete. A worker here holds one job at a time, so that every grant
 * is seen to begin.
 */
export async function poisonWorkers(ground: Ground, { seed, poisons, jobs }: PoisonOptions): Promise<Counts> {
  await using stage = await createStage(ground, {
    seed,
    leaseMs: 500,
    concurrency: 1,
    prefetch: 0,
    expectedEnds: ['code 3', 'signal SIGKILL'],
  })
  const { random, fleet } = stage
  const maxAttempts = 3
  await stage.add(someJobs(random, jobs))
  const added = await stage.jobs.addMany(
    Array.from({ length: poisons }, () => ({
      kind: 'poison',
      payload: { by: random.pick(['exit', 'kill']) },
      priority: random.whole(0, 3),
      maxAttempts,
    })),
  )
  for (let i = 0; i < 2; i++) await fleet.start()
  await stage.drain(60_000)

  const grants = readHistory(ground.folder)
    .filter(({ op, type }) => op === 'claim' && type === 'ok')
    .flatMap(({ items }) => items)
  for (const { id } of added) {
    const record = await stage.store.find(id)
    assert.equal(record?.state, 'dead', `the poison job ${id} is ${record?.state}`)
    assert.equal(record.attempt, maxAttempts)
    assert.equal(grants.filter(({ job }) => job === id).length, maxAttempts, 'grants of a poison job')
  }
  const counts = await stage.finish({ everyGrantSeen: true })
  assert.equal(counts.completed, jobs, 'all other jobs complete')
  return { poisons, 'processes lost': fleet.startCount - 2, ...counts }
}
