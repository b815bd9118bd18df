import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Worker } from 'node:worker_threads'
import { test } from 'vitest'
import { SignalboxError } from '../../../core/errors.ts'
import type { ClaimedRecord, NewJob, Verdict } from '../../../jobs/index.ts'
import { openWriter } from '../connection/connection.ts'
import { openSqlite } from '../index.ts'
import { WriterThread } from './writer-thread.ts'
import type { WriteCall } from './writes.ts'

/** A file, and every thread that is started meanwhile. */
function setUp() {
  const folder = mkdtempSync(join(tmpdir(), 'signalbox-thread-'))
  const path = join(folder, 'store.db')
  const url = `sqlite:${path}?synchronous=normal`
  const threads: Worker[] = []
  const noted = (worker: Worker) => threads.push(worker)
  process.on('worker', noted)
  return {
    path,
    url,
    threads,
    open: (options: { thread?: boolean } = { thread: true }) =>
      openSqlite(url, { namespace: 'default', migrate: true, ...options }),
    /** A connection as another process would have it. */
    neighbour: () => openWriter({ path, synchronous: 'normal' }),
    [Symbol.dispose]() {
      process.off('worker', noted)
      rmSync(folder, { recursive: true })
    },
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

const request = { queues: ['mail'], kinds: null, workerId: 'w', limit: 10, leaseMs: 30_000 }

function verdictOf({ id, token, attempt, handBackCount, snoozeCount }: ClaimedRecord): Verdict {
  return {
    jobId: id,
    token,
    attempt,
    handBackCount,
    snoozeCount,
    state: 'completed',
    delayMs: 0,
    ranMs: 0,
    result: null,
    error: null,
  }
}

test('calls of one round cross in few messages, and so do their answers', async () => {
  using set = setUp()
  await using store = await set.open()
  const [thread] = set.threads
  const sent: unknown[] = []
  const answered: unknown[] = []
  const post = thread!.postMessage.bind(thread)
  thread!.postMessage = (message: unknown) => {
    sent.push(message)
    post(message)
  }
  thread!.on('message', (message) => answered.push(message))
  const other = store.within('other')
  const calls = Array.from({ length: 40 }, (_, i) =>
    i % 2 === 0
      ? store.jobs.add([aJob(`a${i}`)])
      : other.keyed({ caller: 'c', key: `${i}`, fingerprint: 'f', keepMs: 1_000 }).jobs.add([aJob(`a${i}`)]),
  )
  await Promise.all(calls)
  assert.equal(sent.length, 3)
  assert.ok(answered.length <= 3, String(answered.length))
  assert.equal((await store.jobs.list({ limit: 50 })).length, 20)
})

test('reads are answered while a write is blocked', async () => {
  using set = setUp()
  await using store = await set.open()
  await store.jobs.add([aJob('a')])
  const neighbour = set.neighbour()
  neighbour.begin()
  let isAdded = false
  const added = store.jobs.add([aJob('b')]).then(() => {
    isAdded = true
  })
  assert.equal((await store.jobs.find('a'))?.state, 'ready')
  assert.equal((await store.jobs.list({ limit: 10 })).length, 1)
  assert.equal((await store.jobs.stats()).length, 1)
  assert.deepEqual(await store.jobs.claim({ ...request, queues: ['empty'] }), [])
  assert.deepEqual(await store.tokens.list({ limit: 1 }), [])
  assert.equal(await store.tokens.hasLive(), false)
  await store.ping()
  assert.equal(isAdded, false)
  neighbour.rollback()
  neighbour.close()
  await added
  assert.equal((await store.jobs.find('b'))?.state, 'ready')
})

test('an error of the thread is thrown here as it would have been there', async () => {
  using set = setUp()
  await using store = await set.open()
  const key = { caller: 'c', key: 'k', fingerprint: 'one', keepMs: 60_000 }
  await store.keyed(key).jobs.pause('mail')
  const again = store.keyed({ ...key, fingerprint: 'other' }).jobs.pause('mail')
  const error = await again.catch((thrown: unknown) => thrown)
  assert.ok(error instanceof SignalboxError)
  assert.deepEqual([error.code, error.details], ['idempotency_mismatch', { key: 'k' }])
  await store.jobs.add([aJob('a')])
  await assert.rejects(store.jobs.add([aJob('a')]), { code: 'ERR_SQLITE_ERROR' })
})

test('a call that cannot cross fails alone', async () => {
  using set = setUp()
  await using store = await set.open()
  const unspeakable = { ...aJob('a'), priority: 1n as unknown as number }
  const outcomes = await Promise.allSettled([
    store.jobs.add([unspeakable]),
    store.jobs.add([aJob('b')]),
    store.jobs.add([aJob('c')]),
  ])
  assert.deepEqual(
    outcomes.map(({ status }) => status),
    ['rejected', 'fulfilled', 'fulfilled'],
  )
})

test('transactions are refused, and their handlers never called', async () => {
  using set = setUp()
  await using store = await set.open()
  assert.equal(store.traits.transactions, false)
  await store.jobs.add([aJob('a')])
  const [claimed] = await store.jobs.claim(request)
  const verdict = verdictOf(claimed!)
  const unsupported = { code: 'transaction_unsupported' }
  const work = () => assert.fail('called')
  const neighbour = set.neighbour()
  neighbour.begin()
  await assert.rejects(store.jobs.transact(work, { timeoutMs: 0 }), unsupported)
  await assert.rejects(store.jobs.transactAll([work], { timeoutMs: 0 }), unsupported)
  await assert.rejects(store.jobs.add([aJob('b')], neighbour.db), unsupported)
  await assert.rejects(store.jobs.settleIn(neighbour.db, verdict), unsupported)
  neighbour.rollback()
  neighbour.close()
  assert.deepEqual(await store.jobs.settle([verdict]), [true])
})

test("the notifier wakes for a neighbour's commits, and not for our own thread's", async () => {
  using set = setUp()
  await using store = await set.open()
  await using neighbour = await set.open({ thread: false })
  let heard = 0
  let woken = Promise.withResolvers<void>()
  const unlisten = store.notifier.listen(['jobs:mail'], () => {
    heard++
    woken.resolve()
  })
  const polled = () => sleep(70)
  for (const id of ['a', 'b', 'c']) {
    await store.jobs.add([aJob(id)])
    await store.jobs.settle((await store.jobs.claim(request)).map(verdictOf))
    await polled()
  }
  assert.equal(heard, 0)

  await neighbour.jobs.add([aJob('d')])
  await woken.promise
  await polled()
  heard = 0
  woken = Promise.withResolvers()
  await Promise.all([
    store.jobs.add([aJob('e')]),
    neighbour.jobs.add([aJob('f')]),
    store.jobs.add([aJob('g')]),
  ])
  await woken.promise
  await polled()
  assert.equal(heard, 1)
  unlisten()
})

test('closing waits for pending calls, ends the thread and leaves one file', async () => {
  using set = setUp()
  const store = await set.open()
  const neighbour = set.neighbour()
  neighbour.begin()
  const adds = ['a', 'b', 'c'].map((id) => store.jobs.add([aJob(id)]))
  const closing = store.close()
  await assert.rejects(store.jobs.add([aJob('d')]), { code: 'closed' })
  neighbour.rollback()
  neighbour.close()
  assert.equal((await Promise.all(adds)).length, 3)
  await closing
  await store.close()
  assert.equal(set.threads[0]?.threadId, -1, 'the thread has ended')
  assert.deepEqual([existsSync(`${set.path}-wal`), existsSync(`${set.path}-shm`)], [false, false])
  await using again = await set.open()
  assert.equal((await again.jobs.list({ limit: 10 })).length, 3)
})

test('a thread that ends unexpectedly fails its calls, and the next call starts another thread', async () => {
  using set = setUp()
  await using store = await set.open()
  const neighbour = set.neighbour()
  neighbour.begin()
  const lost = [store.jobs.add([aJob('a')]), store.jobs.pause('mail')]
  const outcomes = Promise.allSettled(lost)
  // So that they are sent, and wait in the write queue of the thread.
  await sleep(20)
  await set.threads[0]!.terminate()
  for (const outcome of await outcomes) {
    assert.equal(outcome.status, 'rejected')
    assert.equal((outcome.reason as SignalboxError).code, 'store_unavailable')
  }
  neighbour.rollback()
  neighbour.close()
  await store.jobs.add([aJob('b')])
  assert.equal(set.threads.length, 2)
  assert.deepEqual(
    (await store.jobs.list({ limit: 10 })).map(({ id }) => id),
    ['b'],
  )
})

test('the next thread runs the calls that were not sent before one ended', async () => {
  using set = setUp()
  await using store = await set.open()
  const [thread] = set.threads
  const asked = Promise.withResolvers<unknown>()
  // Before the store itself is told that its thread is gone.
  thread!.prependOnceListener('exit', () => asked.resolve(store.jobs.add([aJob('a')])))
  await thread!.terminate()
  assert.deepEqual(await asked.promise, [{ id: 'a', duplicate: false }])
  assert.equal(set.threads.length, 2)
})

test('after its thread ended, the notifier wakes listeners once for missed commits, and continues', async () => {
  using set = setUp()
  await using store = await set.open()
  await using neighbour = await set.open({ thread: false })
  let woken = Promise.withResolvers<void>()
  const unlisten = store.notifier.listen(['jobs:mail'], () => woken.resolve())
  await set.threads[0]!.terminate()
  await woken.promise
  // The new thread looks from when it is up; a call that it answers says that it is.
  await store.jobs.resume('mail')
  await sleep(70)
  woken = Promise.withResolvers()
  await neighbour.jobs.add([aJob('a')])
  await woken.promise
  unlisten()
})

test('the store gives up a thread that does not answer after a time', async () => {
  using set = setUp()
  await (await set.open()).close()
  const neighbour = set.neighbour()
  neighbour.begin()
  const thread = new WriterThread({ path: set.path, synchronous: 'normal' }, { answerMs: 2_000 })
  const call: WriteCall<'pause'> = { operation: 'pause', namespace: 'default', args: ['mail'] }
  await assert.rejects(thread.write(call), { code: 'store_unavailable', details: { answerMs: 2_000 } })
  neighbour.rollback()
  // The late answer belongs to no call.
  await thread.write(call)
  await thread.close()
  neighbour.close()
})

test('an idle store with a thread lets the process end', async () => {
  using set = setUp()
  const program = `
    import { openSqlite } from ${JSON.stringify(new URL('../index.ts', import.meta.url).href)}
    const store = await openSqlite(${JSON.stringify(set.url)}, { namespace: 'default', migrate: true, thread: true })
    store.notifier.listen(['x'], () => {})
    await store.jobs.pause('mail')
    store.jobs.resume('mail').then(() => console.log('resumed'))`
  const node = spawn(process.execPath, ['--input-type=module', '--eval', program], {
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  for (const stream of [node.stdout, node.stderr]) {
    stream.on('data', (chunk) => {
      output += chunk
    })
  }
  const [code] = await once(node, 'close')
  assert.deepEqual([code, output], [0, 'resumed\n'])
})

test('the compile cache of the thread is that of its process', async () => {
  using set = setUp()
  const cache = join(set.path, '..', 'compiled')
  const program = `
    import { enableCompileCache } from 'node:module'
    enableCompileCache(${JSON.stringify(cache)})
    const { openSqlite } = await import(${JSON.stringify(new URL('../index.ts', import.meta.url).href)})
    const store = await openSqlite(${JSON.stringify(set.url)}, { namespace: 'default', migrate: true, thread: true })
    await store.close()`
  const { NODE_COMPILE_CACHE: _, ...env } = process.env
  const node = spawn(process.execPath, ['--input-type=module', '--eval', program], { env, stdio: 'inherit' })
  const [code] = await once(node, 'close')
  assert.equal(code, 0)
  const files = readdirSync(cache, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile())
  // A word that stands in the thread's own file and nowhere else.
  const isKept = files.some(({ parentPath, name }) =>
    readFileSync(join(parentPath, name)).includes('sendAnswers'),
  )
  assert.ok(isKept)
})
