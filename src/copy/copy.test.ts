import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync, type SQLInputValue } from 'node:sqlite'
import { test } from 'vitest'
import { isSignalboxError } from '../core/errors.ts'
import { open } from '../index.ts'
import { openCopyEnd, openMigrator } from '../storage/index.ts'
import { compare, copy, planCopy } from './index.ts'

/** Two files, the first of them a store with this many jobs. */
async function createStage(jobs: number) {
  const folder = mkdtempSync(join(tmpdir(), 'signalbox-copy-'))
  const [from, to] = ['from', 'to'].map((name) => `sqlite:${join(folder, `${name}.db`)}`) as [string, string]
  await using box = await open(from, { contention: false, series: false })
  await box.jobs.addMany(Array.from({ length: jobs }, (_, index) => ({ kind: 'count', payload: index })))
  return {
    from,
    to,
    /** Past the store, as no program should. */
    exec(url: string, sql: string, ...values: SQLInputValue[]) {
      const db = new DatabaseSync(url.slice('sqlite:'.length), { timeout: 5_000 })
      try {
        return db.prepare(sql).all(...values)
      } finally {
        db.close()
      }
    },
    [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true }),
  }
}

const isCode = (code: string, said: RegExp) => (error: unknown) => {
  assert.ok(isSignalboxError(error), String(error))
  assert.deepEqual([error.code, said.test(error.message) ? 'said' : error.message], [code, 'said'])
  return true
}

test('an address without a database to copy is refused, with the kind to name instead', async () => {
  using stage = await createStage(1)
  for (const [url, said] of [
    ['memory:', /gone with its process/],
    ['redis://cache', /only locks and guards/],
    ['https://jobs.example.com', /name the database of that server/],
    ['mail.db', /sqlite:FILE/],
  ] as const) {
    await assert.rejects(copy(stage.from, url), isCode('invalid_argument', said))
    await assert.rejects(copy(url, stage.to), isCode('invalid_argument', said))
  }
  await assert.rejects(copy(stage.from, stage.from), isCode('invalid_argument', /the same store/))
  await assert.rejects(
    copy(stage.to, stage.from),
    isCode('schema_missing', /The source has no Signalbox tables/),
  )
})

test('a schema of another version is reported with its side and the program to upgrade', async () => {
  using stage = await createStage(1)
  const add = 'INSERT INTO signalbox_migration (number, name, applied_at) VALUES (?, ?, 0)'
  await using box = await open(stage.to, { contention: false, series: false })
  await box.close()
  stage.exec(stage.to, add, 900, 'future')
  await assert.rejects(
    copy(stage.from, stage.to),
    isCode('schema_newer', /The target has schema 900.*Upgrade Signalbox here/),
  )
  stage.exec(stage.from, add, 900, 'future')
  await assert.rejects(copy(stage.from, stage.to), isCode('schema_newer', /The source has schema 900/))
  stage.exec(stage.from, `UPDATE signalbox_migration SET name = 'jobs' WHERE number = 1`)
  await assert.rejects(
    copy(stage.from, stage.to),
    isCode('schema_outdated', /The source was made by an unreleased version/),
  )
})

test('a target that already has rows is left alone', async () => {
  using stage = await createStage(3)
  {
    await using box = await open(stage.to, { contention: false, series: false })
    await box.jobs.pause('mail')
  }
  await assert.rejects(
    copy(stage.from, stage.to),
    isCode('copy_target_taken', /its table queue_control has rows/),
  )
  await assert.rejects(planCopy(stage.from, stage.to), isCode('copy_target_taken', /not empty/))
  await using box = await open(stage.to, { contention: false, series: false })
  assert.equal((await box.jobs.list()).items.length, 0)
})

test('an interrupted copy continues where it was, and its target cannot be opened meanwhile', async () => {
  using stage = await createStage(1_000)
  const broken = copy(stage.from, stage.to, {
    pageRows: 400,
    onNews: ({ phase }) => {
      if (phase === 'copying') throw new Error('the cable was pulled')
    },
  })
  await assert.rejects(broken, /the cable was pulled/)
  await assert.rejects(open(stage.to), isCode('copy_unfinished', /Run the same copy again/))
  await assert.rejects(
    copy(stage.to, `${stage.to}2`),
    isCode('copy_unfinished', /Another copy fills the source/),
  )
  using other = await createStage(1)
  await assert.rejects(copy(other.from, stage.to), isCode('copy_target_taken', /from another source/))

  assert.equal((await planCopy(stage.from, stage.to)).resumes, true)
  const { resumed, written, jobs } = await copy(stage.from, stage.to)
  assert.deepEqual([resumed, jobs], [true, 1_000])
  assert.ok(written > 0 && written < 1_000, `${written} were written by the second run`)
  await using box = await open(stage.to, { contention: false, series: false })
  assert.equal((await box.jobs.stats())[0]!.ready, 1_000)
  await assert.rejects(
    copy(stage.from, stage.to),
    isCode('copy_target_taken', /copied to this target before/),
  )
})

test('of two concurrent copies one does the work', async () => {
  using stage = await createStage(1_000)
  const ends = await Promise.allSettled([1, 2].map(() => copy(stage.from, stage.to, { pageRows: 100 })))
  assert.deepEqual(ends.map(({ status }) => status).sort(), ['fulfilled', 'rejected'])
  const { reason } = ends.find((end) => end.status === 'rejected')!
  isCode('copy_target_taken', /Another `signalbox copy`/)(reason)
  assert.equal((await compare(stage.from, stage.to)).jobs, 1_000)
})

test('a source with active workers is refused, and the copy waits for abandoned leases', async () => {
  using stage = await createStage(2)
  await using box = await open(stage.from, { contention: false, series: false })
  const [job] = await box.jobs.claim({ leaseMs: 1_000, workerId: 'ada' })
  await assert.rejects(
    copy(stage.from, stage.to, { waitMs: 0 }),
    isCode('copy_source_busy', /job default\/\w+ \(ada\) is held for another \d+ ms/),
  )
  const news: string[] = []
  const renewed = copy(stage.from, stage.to, {
    onNews: ({ phase }) => {
      news.push(phase)
      void box.jobs.renew(job!, 2_000)
    },
  })
  await assert.rejects(renewed, isCode('copy_source_busy', /was taken or renewed just now/))
  assert.deepEqual(news, ['waiting'])
  assert.equal((await planCopy(stage.from, stage.to)).held.length, 1)

  const { jobs } = await copy(stage.from, stage.to)
  assert.equal(jobs, 2)
  // Its attempt counts, and its word is taken nowhere: its lease was left behind.
  await using target = await open(stage.to, { contention: false, series: false })
  const found = await target.jobs.find(job!.id)
  assert.deepEqual([found!.state, found!.attempt], ['ready', 1])
  for (const store of [box, target])
    await assert.rejects(store.jobs.ack(job!), (error) => isSignalboxError(error, 'lease_lost'))
  const [again] = await target.jobs.claim({ leaseMs: 60_000 })
  assert.ok(Number(again!.token.split('.')[0]) > Number(job!.token.split('.')[0]))
})

test('rows that change behind the copy are copied again; tables that keep changing are named', async () => {
  using stage = await createStage(600)
  let changes = 0
  const change = () => stage.exec(stage.from, 'UPDATE job_queue SET priority = ? WHERE rowid = 1', ++changes)
  await assert.rejects(
    copy(stage.from, stage.to, { onNews: ({ phase }) => phase === 'copying' && change() }),
    isCode('copy_source_changed', /kept changing while it was copied: job_queue\./),
  )
  const seen = changes
  const { written, resumed } = await copy(stage.from, stage.to, {
    onNews: ({ phase }) => phase === 'copying' && changes === seen && change(),
  })
  assert.deepEqual([resumed, written], [true, 1_200])
  assert.deepEqual(
    stage.exec(stage.to, 'SELECT max(priority) AS highest FROM job_queue')[0]!.highest,
    stage.exec(stage.from, 'SELECT max(priority) AS highest FROM job_queue')[0]!.highest,
  )
})

test('a difference between two databases is reported with table and count', async () => {
  using stage = await createStage(3)
  const { sha256 } = await copy(stage.from, stage.to)
  assert.equal((await compare(stage.from, stage.to)).sha256, sha256)
  stage.exec(stage.to, `UPDATE job_queue SET payload = '7' WHERE payload = '1'`)
  await assert.rejects(compare(stage.from, stage.to), isCode('copy_mismatch', /job_queue \(3 rows each\)/))
  stage.exec(stage.to, `DELETE FROM job_queue WHERE payload = '7'`)
  await assert.rejects(
    compare(stage.from, stage.to),
    isCode('copy_mismatch', /job_queue \(3 rows in the source, 2 in the target\)/),
  )
})

test('the check finds rows in the target that were not copied', async () => {
  using stage = await createStage(3)
  await assert.rejects(
    copy(stage.from, stage.to, {
      onNews: ({ phase }) => {
        if (phase === 'copying') throw new Error('stop')
      },
    }),
  )
  stage.exec(stage.to, `INSERT INTO queue_control (namespace, queue, paused_at) VALUES ('x', 'y', 1)`)
  await copy(stage.from, stage.to)
  assert.deepEqual(stage.exec(stage.to, 'SELECT * FROM queue_control'), [])
  await using end = await openCopyEnd(stage.to)
  assert.equal(await end.unfinished(), undefined)
})

test('rows that the target refuses are reported by table, and a repaired copy continues', async () => {
  using stage = await createStage(300)
  {
    await using source = await openCopyEnd(stage.from)
    await using migrator = await openMigrator(stage.to)
    await migrator.up()
    await using target = await openCopyEnd(stage.to)
    await target.begin((await source.storeId())!)
  }
  stage.exec(
    stage.to,
    `CREATE TRIGGER picky BEFORE INSERT ON job_queue WHEN NEW.payload = '250'
     BEGIN SELECT RAISE(ABORT, 'not this one'); END`,
  )
  await assert.rejects(
    copy(stage.from, stage.to, { pageRows: 100 }),
    isCode('store_unavailable', /The target refused rows of job_queue: not this one/),
  )
  stage.exec(stage.to, 'DROP TRIGGER picky')
  const { jobs, written } = await copy(stage.from, stage.to)
  assert.deepEqual([jobs, written], [300, 100])
})
