import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { ask, connect, type Ground } from '../ground.ts'
import { readHistory } from '../history.ts'
import { type Counts, createStage } from '../stage.ts'

export interface TanglesOptions {
  readonly seed: number
  readonly jobs: number
}

const rowCount = 4
const deadlocks = ['1213', '40P01']
const lockWaits = ['1205', '55P03']

/**
 * Handlers lock the same rows in different orders, so that the database ends some of them as deadlock victims, and
 * another process holds rows for longer than handlers may wait. Half of the handlers ignore the error and write on. On
 * MariaDB a deadlock ends the transaction, and later statements would be committed alone: none of that may be visible.
 */
export async function tangleRows(ground: Ground, { seed, jobs }: TanglesOptions): Promise<Counts> {
  await ask(ground.url, 'CREATE TABLE tangles (id INTEGER PRIMARY KEY, touched INTEGER NOT NULL)')
  for (let row = 1; row <= rowCount; row++) await ask(ground.url, `INSERT INTO tangles VALUES (${row}, 0)`)
  if (ground.engine === 'postgres') await lookForDeadlocksSooner(ground.url)
  await using stage = await createStage(ground, { seed, concurrency: 4 })
  const { random } = stage
  await stage.startWorkers(2)
  await stage.add(
    Array.from({ length: jobs }, () => {
      const rows = [1, 2, 3, 4].sort(() => random() - 0.5).slice(0, 2)
      const often = { maxAttempts: 1_000, backoff: { baseMs: 20, maxMs: 200 } }
      return { kind: 'tangle', payload: { rows, swallow: random() < 0.5 }, ...often }
    }),
  )

  const isOver = new AbortController()
  const bystander = standInTheWay(ground.url, isOver.signal)
  await sleep(2_000)
  isOver.abort()
  await bystander
  await stage.drain(60_000)

  const notes = readHistory(ground.folder).filter(({ op }) => op === 'note')
  const count = (codes: readonly string[]) =>
    notes.filter(({ detail }) => codes.includes(detail ?? '')).length
  const counts = {
    deadlocks: count(deadlocks),
    'lock waits': count(lockWaits),
    ...(await stage.finish({ everyGrantSeen: true })),
  }
  assert.ok(
    counts.deadlocks + counts['lock waits'] > 0,
    'rows were locked crosswise, and yet no statement was given up',
  )
  return counts
}

/** Postgres looks after a second, which is when lock waits here time out; only a superuser may change that. */
async function lookForDeadlocksSooner(url: string): Promise<void> {
  const name = new URL(url).pathname.slice(1)
  await ask(url, `ALTER DATABASE ${name} SET deadlock_timeout = '50ms'`).catch(() => undefined)
}

/** Holds one row after the other for longer than any handler waits. */
async function standInTheWay(url: string, signal: AbortSignal): Promise<void> {
  await using caller = await connect(url)
  for (let row = 1; !signal.aborted; row = (row % rowCount) + 1) {
    await caller.begin()
    await caller.exec('UPDATE tangles SET touched = touched + 1 WHERE id = ?', row).catch(() => undefined)
    await sleep(1_300)
    await caller.rollback()
    await sleep(50)
  }
}
