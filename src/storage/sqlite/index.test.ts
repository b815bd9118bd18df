import assert from 'node:assert/strict'
import { existsSync, mkdtempSync, renameSync, rmSync, symlinkSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'vitest'
import type { NewJob } from '../../jobs/index.ts'
import { openSqlite } from './index.ts'

function setUp() {
  const folder = mkdtempSync(join(tmpdir(), 'signalbox-sqlite-'))
  const path = join(folder, 'store.db')
  return {
    path,
    open: () => openSqlite(`sqlite:${path}?synchronous=normal`, { namespace: 'default', migrate: true }),
    [Symbol.dispose]: () => rmSync(folder, { recursive: true }),
  }
}

function aJob(id: string): NewJob {
  const rest = {
    payload: 'null',
    priority: 0,
    uniqueKey: null,
    maxAttempts: 5,
    backoff: null,
    timeoutMs: null,
    meta: null,
  }
  return { id, queue: 'mail', kind: 'send', due: { delayMs: 0 }, ...rest }
}

const request = { queues: ['mail'], kinds: ['send'], workerId: 'w', limit: 1, leaseMs: 30_000 }

/** Uses all three connections: a read, a write, a transaction. */
async function workOff(store: Awaited<ReturnType<typeof openSqlite>>, id: string): Promise<void> {
  await store.jobs.add([aJob(id)])
  const [claimed] = await store.jobs.claim(request)
  const { token, attempt, handBackCount, snoozeCount } = claimed!
  const verdict = {
    jobId: id,
    token,
    attempt,
    handBackCount,
    snoozeCount,
    delayMs: 0,
    ranMs: 0,
    result: null,
    error: null,
  }
  await store.jobs.transact(async () => ({ ...verdict, state: 'completed' }), { timeoutMs: 0 })
  assert.equal((await store.jobs.find(id))?.state, 'completed')
}

test('a closed store leaves one file, with all its data', async () => {
  using set = setUp()
  const store = await set.open()
  await workOff(store, 'a')
  assert.ok(existsSync(`${set.path}-wal`), 'WAL mode has its file while the store is open')
  await store.close()
  assert.deepEqual([existsSync(`${set.path}-wal`), existsSync(`${set.path}-shm`)], [false, false])

  await using again = await set.open()
  assert.equal((await again.jobs.find('a'))?.state, 'completed')
})

test("the notifier wakes for a neighbour's commits, and not for our own", async () => {
  using set = setUp()
  await using store = await set.open()
  await using neighbour = await set.open()
  let heard = 0
  let woken = Promise.withResolvers<void>()
  const unlisten = store.notifier.listen(['jobs:mail'], () => {
    heard++
    woken.resolve()
  })
  const polled = () => new Promise((resolve) => setTimeout(resolve, 70))

  for (const id of ['a', 'b', 'c']) await workOff(store, id)
  await polled()
  assert.equal(heard, 0, 'writes and transactions of this store')

  await workOff(neighbour, 'd')
  await woken.promise
  await polled()
  heard = 0
  woken = Promise.withResolvers()
  // In one go with our own, so that it falls between two of ours and before the next look.
  await Promise.all([workOff(store, 'e'), neighbour.jobs.add([{ ...aJob('f'), queue: 'other' }])])
  await woken.promise
  await polled()
  assert.equal(heard, 1)
  unlisten()
})

test('the notifier still sees others after a transaction timed out and its connection was replaced', async () => {
  using set = setUp()
  await using store = await set.open()
  await using neighbour = await set.open()
  let woken = Promise.withResolvers<void>()
  const unlisten = store.notifier.listen(['jobs:mail'], () => woken.resolve())
  const late = store.jobs.transact(() => new Promise(() => {}), { timeoutMs: 20 })
  await assert.rejects(late, { code: 'transaction_timeout' })
  await new Promise((resolve) => setTimeout(resolve, 70))
  woken = Promise.withResolvers()
  await neighbour.jobs.add([aJob('a')])
  await woken.promise
  unlisten()
})

test('a file that is moved away accepts no writes and reports it; put back, it works again', async () => {
  using stage = setUp()
  await using store = await stage.open()
  await store.jobs.add([aJob('first')])
  for (const suffix of ['', '-wal', '-shm']) renameSync(stage.path + suffix, `${stage.path}.away${suffix}`)
  const gone = { code: 'store_unavailable', message: /moved or deleted/ }
  await assert.rejects(store.ping(), gone)
  await assert.rejects(store.jobs.add([aJob('second')]), gone)
  assert.equal(existsSync(stage.path), false, 'nothing was made in its place')
  for (const suffix of ['', '-wal', '-shm']) {
    if (existsSync(`${stage.path}.away${suffix}`))
      renameSync(`${stage.path}.away${suffix}`, stage.path + suffix)
  }
  await store.ping()
  await store.jobs.add([aJob('third')])
  const found = await Promise.all(['first', 'second', 'third'].map((id) => store.jobs.find(id)))
  assert.deepEqual(
    found.map((job) => job !== undefined),
    [true, false, true],
  )
})

test('a dangling link is not followed', async () => {
  using stage = setUp()
  symlinkSync(`${stage.path}.elsewhere`, stage.path)
  await assert.rejects(stage.open(), { code: 'store_unavailable' })
  assert.equal(existsSync(`${stage.path}.elsewhere`), false)
})
