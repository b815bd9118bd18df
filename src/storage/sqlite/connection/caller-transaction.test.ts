import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync, type DatabaseSyncOptions } from 'node:sqlite'
import { test } from 'vitest'
import { createId } from '../../../core/ids.ts'
import type { NewJob, StoreTransaction, Verdict } from '../../../jobs/index.ts'
import type { Backend } from '../../backend.ts'
import { openSqlite } from '../index.ts'

interface Opened extends AsyncDisposable {
  readonly backend: Backend
  readonly path: string
}

async function opened(): Promise<Opened> {
  const folder = await mkdtemp(join(tmpdir(), 'signalbox-callertx-'))
  const path = join(folder, 'jobs.db')
  const backend = await openSqlite(`sqlite:${path}`, { namespace: 'default', migrate: true })
  return {
    backend,
    path,
    async [Symbol.asyncDispose]() {
      await backend.close()
      await rm(folder, { recursive: true })
    },
  }
}

const job = (uniqueKey: string | null = null): NewJob => ({
  ...{ id: createId(), queue: 'q', kind: 'k', payload: '1', priority: 0, uniqueKey, due: { delayMs: 0 } },
  ...{ maxAttempts: 5, backoff: null, timeoutMs: null, meta: null },
})

const completed = (jobId: string, token: string): Verdict => ({
  ...{
    jobId,
    token,
    state: 'completed',
    attempt: 1,
    handBackCount: 0,
    snoozeCount: 0,
    delayMs: 0,
    ranMs: null,
  },
  ...{ result: null, error: null },
})

const claim = { queues: ['q'], kinds: null, workerId: 'w', limit: 1, leaseMs: 60_000 }

const settings: Readonly<Record<string, DatabaseSyncOptions>> = {
  'gives integers as BigInt': { readBigInts: true },
  'gives rows as arrays': { returnArrays: true },
  'knows no bare names': { allowBareNamedParameters: false, allowUnknownNamedParameters: false },
}

for (const [what, options] of Object.entries({ ...settings, 'has no peculiarities': {} })) {
  test(`a transaction of a database that ${what} is ended, and COMMIT refused until ROLLBACK`, async () => {
    await using place = await opened()
    using db = new DatabaseSync(place.path, options)
    db.exec('CREATE TABLE rows (note TEXT); BEGIN IMMEDIATE; INSERT INTO rows VALUES (1)')
    await place.backend.jobs.endTransaction(db, new Error('refused'))
    db.exec('INSERT INTO rows VALUES (2)')
    for (const _ of [1, 2]) assert.throws(() => db.exec('COMMIT'), /FOREIGN KEY constraint failed/)
    db.exec('ROLLBACK')
    db.exec('BEGIN; INSERT INTO rows VALUES (3); COMMIT')
    const statement = db.prepare('SELECT CAST(note AS TEXT) AS note FROM rows')
    statement.setReturnArrays(false)
    assert.deepEqual(
      statement.all().map(({ note }) => note),
      ['3'],
    )
  })
}

test('an ended transaction holds no lock on the file', async () => {
  await using place = await opened()
  using db = new DatabaseSync(place.path)
  db.exec('BEGIN IMMEDIATE')
  await place.backend.jobs.endTransaction(db, new Error('refused'))
  const [added] = await place.backend.jobs.add([job()])
  assert.equal(added?.duplicate, false)
})

for (const off of ['enableForeignKeyConstraints: false', 'PRAGMA foreign_keys = OFF'])
  test(`a database with ${off} would commit, so it is closed`, async () => {
    await using place = await opened()
    const isOption = !off.startsWith('PRAGMA')
    const db = new DatabaseSync(place.path, { enableForeignKeyConstraints: !isOption })
    if (!isOption) db.exec(off)
    db.exec('CREATE TABLE rows (note TEXT); BEGIN IMMEDIATE; INSERT INTO rows VALUES (1)')
    await place.backend.jobs.endTransaction(db, new Error('refused'))
    assert.equal(db.isOpen, false)
    assert.throws(() => db.exec('COMMIT'), /not open/)
    using reader = new DatabaseSync(place.path)
    assert.deepEqual(reader.prepare('SELECT * FROM rows').all(), [])
  })

for (const [what, options] of Object.entries(settings)) {
  test(`a caller’s database that ${what} takes part like any other`, async () => {
    await using store = await opened()
    const { jobs } = store.backend
    const db = new DatabaseSync(store.path, options)
    db.exec('BEGIN IMMEDIATE')
    const added = await jobs.add([job(), job('u'), job('u')], db)
    assert.deepEqual(
      added.map(({ duplicate }) => duplicate),
      [false, false, true],
    )
    db.exec('COMMIT')
    const [claimed] = await jobs.claim(claim)
    db.exec('BEGIN IMMEDIATE')
    assert.equal(await jobs.settleIn(db, completed(claimed!.id, claimed!.token)), true)
    assert.equal(await jobs.settleIn(db, completed(claimed!.id, claimed!.token)), false)
    db.exec('COMMIT')
    assert.equal((await jobs.find(claimed!.id))?.state, 'completed')
    // Theirs is as it was.
    const count = db.prepare('SELECT 1 AS one').get() as unknown
    assert.deepEqual(Array.isArray(count), options.returnArrays === true)
    db.close()
  })
}

test('a caller’s closed database is refused with a reason', async () => {
  await using store = await opened()
  const db = new DatabaseSync(store.path)
  db.close()
  await assert.rejects(store.backend.jobs.add([job()], db), {
    code: 'transaction_required',
    message: /closed/,
  })
})

test('an ended transaction of ours is refused, also while the next one is open', async () => {
  await using store = await opened()
  const { jobs } = store.backend
  await jobs.add([job(), job()])
  const [first] = await jobs.claim(claim)
  const [second] = await jobs.claim(claim)
  let over: StoreTransaction | undefined
  const options = { timeoutMs: 10_000 }
  await jobs.transact(async (tx) => {
    over = tx
    return completed(first!.id, first!.token)
  }, options)
  const stray = job()
  await jobs.transact(async () => {
    await assert.rejects(async () => jobs.add([stray], over), { code: 'closed' })
    assert.throws(() => over!.raw, { code: 'closed' })
    return completed(second!.id, second!.token)
  }, options)
  assert.equal(await jobs.find(stray.id), undefined)
})
