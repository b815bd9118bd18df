/**
 * A large backlog and a large history, while a reader holds an old snapshot open. Claims stay fast, workers are killed
 * meanwhile, and in the end every job is completed.
 */
import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import type { JobStore } from '../../../src/jobs/index.ts'
import { ask, connect, type Ground } from '../ground.ts'
import { type Counts, createStage, type Stage } from '../stage.ts'

export interface BacklogOptions {
  readonly seed: number
  /** Jobs in history, and jobs ready. */
  readonly rows: number
  readonly kills: number
  readonly report: (what: string) => void
}

const batch = 1_000
const fewRows = 1_000
const samples = 200

export async function workOffBacklog(ground: Ground, options: BacklogOptions): Promise<Counts> {
  const { seed, rows, kills, report } = options
  // Nothing is recorded here but numbers: the history of a million jobs would be the load itself.
  await using stage = await createStage(ground, {
    seed,
    concurrency: 500,
    prefetch: 5_000,
    leaseMs: 10_000,
    isSilent: true,
  })
  const { fleet, random } = stage
  await fill(stage, 'plain', fewRows)
  const quickMs = await medianClaimMs(stage.store)

  const filledAt = performance.now()
  await fill(stage, 'plain', rows - fewRows)
  report(`${rows} jobs added in ${seconds(filledAt)}`)
  const drainedAt = performance.now()
  for (let i = 0; i < 2; i++) await fleet.start()
  await stage.drain(60_000 + rows)
  report(`worked off in ${seconds(drainedAt)}`)
  for (const member of fleet.members) await fleet.kill(member)

  await fill(stage, 'plain', rows)
  await using reader = await connect(ground.url)
  await holdSnapshot(ground, reader)
  const longMs = await medianClaimMs(stage.store)
  report(
    `a claim took ${quickMs.toFixed(2)} ms with ${fewRows} jobs, ${longMs.toFixed(2)} ms with ${rows} + ${rows}`,
  )

  // Half of the backlog is worked off, and the old snapshot keeps its rows; then claims are measured without
  // competition.
  for (let i = 0; i < 2; i++) await fleet.start()
  while ((await stage.backlog()) > rows / 2) await sleep(20)
  for (const member of fleet.members) await fleet.kill(member)
  const heldMs = await medianClaimMs(stage.store)
  report(
    `${heldMs.toFixed(2)} ms with ${await stage.backlog()} jobs behind dead rows that an old snapshot keeps`,
  )

  for (let i = 0; i < 2; i++) await fleet.start()
  for (let kill = 0; kill < kills; kill++) {
    await sleep(random.whole(300, 2_000))
    await fleet.killAndReplace(random.pick(fleet.members))
  }
  await stage.drain(60_000 + rows)
  const [line] = await ask(ground.url, `SELECT COUNT(*) AS n FROM job_history WHERE state = 'completed'`)
  assert.equal(Number(line?.n), 2 * rows, 'Q1: every job is completed')
  for (const [when, ms] of [
    ['with a long line', longMs],
    ['under an old snapshot', heldMs],
  ] as const)
    assert.ok(ms <= 2 * quickMs + 1, `a claim takes ${ms} ms ${when}, and ${quickMs} ms with ${fewRows} rows`)
  return { jobs: 2 * rows, kills: kills + 4 }
}

async function fill({ jobs }: Stage, kind: string, count: number): Promise<void> {
  for (let added = 0; added < count; added += batch) {
    await jobs.addMany(
      Array.from({ length: Math.min(batch, count - added) }, () => ({ kind, payload: {}, maxAttempts: 100 })),
    )
  }
}

/** The time of a claim of ten jobs; each job is handed back at once, so that the backlog stays as it is. */
async function medianClaimMs(store: JobStore): Promise<number> {
  const times: number[] = []
  for (let i = 0; i < samples; i++) {
    const begun = performance.now()
    const records = await store.claim({
      queues: ['default'],
      kinds: ['plain'],
      workerId: 'meter',
      limit: 10,
      leaseMs: 60_000,
    })
    times.push(performance.now() - begun)
    await store.settle(
      records.map(({ id, token, attempt, handBackCount, snoozeCount }) => {
        const same = {
          jobId: id,
          token,
          handBackCount,
          snoozeCount,
          delayMs: 0,
          ranMs: null,
          result: null,
          error: null,
        }
        return { ...same, state: 'ready', attempt: attempt - 1 }
      }),
    )
  }
  return times.sort((a, b) => a - b)[samples >> 1]!
}

async function holdSnapshot({ engine }: Ground, reader: Awaited<ReturnType<typeof connect>>): Promise<void> {
  if (engine === 'postgres') await reader.exec('BEGIN ISOLATION LEVEL REPEATABLE READ')
  if (engine === 'mariadb') await reader.exec('START TRANSACTION WITH CONSISTENT SNAPSHOT')
  if (engine === 'sqlite') await reader.exec('BEGIN')
  await reader.exec('SELECT COUNT(*) AS n FROM effects')
}

function seconds(since: number): string {
  return `${((performance.now() - since) / 1_000).toFixed(1)} s`
}
