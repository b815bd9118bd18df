import assert from 'node:assert/strict'
import { describe, test } from 'vitest'
import { isSignalboxError } from '../../../src/core/errors.ts'
import type { Added, JobStore } from '../../../src/jobs/index.ts'
import type { Backend, RequestKey } from '../../../src/storage/backend.ts'
import { aNamespace, type Candidate } from '../candidates.ts'
import { addOne, aJob, claim, find, ids, longMs, shortMs, until } from '../jobs/making.ts'
import { aKey, fingerprintOf, jobsOf } from './asking.ts'
import { keyedCalls, seen } from './keyed-calls.ts'

/** A request that is repeated with its key is not executed again, and gets its first answer. */
export function keysContract({ open, lend, isShared, sql }: Candidate): void {
  /** The same namespace as another process would reach it; on engines of one process, another view. */
  async function openAgain(backend: Backend, namespace: string): Promise<Backend & AsyncDisposable> {
    if (isShared) return lend(namespace)
    return { ...jobsOf(backend.within(namespace)), [Symbol.asyncDispose]: async () => {} }
  }

  for (const [method, prepare] of Object.entries(keyedCalls)) {
    describe(method, () => {
      test('is executed once; a repeat gets the first answer, whatever happened since', async () => {
        const namespace = aNamespace()
        await using backend = await lend(namespace)
        const { run, meanwhile, ...expected } = await prepare(backend)
        const key = aKey()
        const first = await run(backend.keyed(key).jobs)
        if ('answers' in expected) assert.deepEqual(first, expected.answers)
        await meanwhile()

        const before = await seen(backend)
        await using other = await openAgain(backend, namespace)
        assert.deepEqual(await run(backend.keyed(key).jobs), first)
        assert.deepEqual(await run(other.keyed(key).jobs), first)
        assert.deepEqual(await run(backend.within(namespace).keyed({ ...key, keepMs: 1 }).jobs), first)
        assert.deepEqual(await seen(backend), before)
      })

      test('has no effect when its key was used for another request', async () => {
        await using backend = await open()
        const { run } = await prepare(backend)
        const key = aKey({ fingerprint: fingerprintOf('something else') })
        await backend.keyed(key).jobs.pause('elsewhere')
        const before = await seen(backend)
        const used = backend.keyed(aKey({ key: key.key })).jobs
        await assert.rejects(run(used), { name: 'SignalboxError', code: 'idempotency_mismatch' })
        assert.deepEqual(await seen(backend), before)
        await run(backend.keyed(aKey()).jobs)
      })

      test('is executed once when several requests with its key arrive at once', async () => {
        const namespace = aNamespace()
        await using backend = await lend(namespace)
        await using other = await openAgain(backend, namespace)
        const { run } = await prepare(backend)
        const key = aKey()
        const calls = Array.from({ length: 8 }, (_, i) => run((i % 2 ? other : backend).keyed(key).jobs))
        const outcomes = await Promise.allSettled(calls)
        const first = await run(backend.keyed(key).jobs)
        for (const outcome of outcomes) {
          if (outcome.status === 'fulfilled') assert.deepEqual(outcome.value, first)
          else assert.ok(isSignalboxError(outcome.reason, 'in_progress'), String(outcome.reason))
        }
        assert.ok(outcomes.some(({ status }) => status === 'fulfilled'))
        if (method === 'add') assert.equal((await backend.jobs.list({ limit: 50 })).length, 2)
        if (method === 'claim') assert.equal((await backend.jobs.stats())[0]?.running, 2)
        if (method === 'retryDead') assert.equal((await backend.jobs.stats())[0]?.dead, 1)
        if (method === 'prune') assert.equal((await backend.jobs.list({ limit: 50 })).length, 1)
      })
    })
  }

  test('the same key of another caller or namespace is a different key', async () => {
    await using backend = await open()
    const views = [backend, jobsOf(backend.within(aNamespace()))]
    const keys = [
      'a',
      'ab',
      'A',
      'a ',
      ' a',
      'á',
      'a%',
      `'"\\$1?`,
      `${'x'.repeat(254)}1`,
      `${'x'.repeat(254)}2`,
    ]
    const callers = ['b', 'B', 'bc', '']
    // The same texts once they are joined with a caller's.
    keys.push('ca', 'ba', ':a')
    callers.push('b:')
    const answers: [Backend, RequestKey, string][] = []
    for (const view of views) {
      for (const name of keys) {
        for (const caller of callers) {
          const key = aKey({ key: name, caller })
          answers.push([view, key, (await addKeyed(view, key)).id])
        }
      }
    }
    assert.equal(new Set(answers.map(([, , id]) => id)).size, views.length * keys.length * callers.length)
    for (const [view, key, id] of answers) assert.equal((await addKeyed(view, key)).id, id)
  })

  test('a call that throws leaves no key and no effect', async () => {
    await using backend = await open()
    const key = aKey()
    const unreadable = aJob()
    Object.defineProperty(unreadable, 'payload', {
      enumerable: true,
      get() {
        throw new Error('unreadable')
      },
    })
    await assert.rejects(backend.keyed(key).jobs.add([unreadable]), { message: 'unreadable' })
    assert.deepEqual(await backend.jobs.list({ limit: 10 }), [])
    const { id } = await addKeyed(backend, { ...key, fingerprint: fingerprintOf('another body') })
    assert.deepEqual(ids(await backend.jobs.list({ limit: 10 })), [id])
  })

  test.runIf(isShared)('a call that the database refuses leaves no key and no effect', async () => {
    await using backend = await open()
    const key = aKey()
    const { jobs } = backend.keyed(key)
    // No service lets such a job through. Here it stands for any job that a database may refuse.
    await assert.rejects(jobs.add([aJob(), aJob({ id: null as never })]))
    assert.deepEqual(await backend.jobs.list({ limit: 10 }), [])
    // The view still has its key, because no write used it.
    const [added] = await jobs.add([aJob()])
    assert.equal((await addKeyed(backend, key)).id, added?.id)
  })

  test('a claim that finds nothing leaves no key', async () => {
    await using backend = await open()
    const key = aKey()
    const request = { queues: ['mail'], kinds: null, workerId: 'w1', limit: 1, leaseMs: longMs }
    const { jobs } = backend.keyed(key)
    assert.deepEqual(await jobs.claim(request), [])
    const [one, two] = [await addOne(backend), await addOne(backend)]
    const first = await jobs.claim(request)
    assert.deepEqual(ids(first), [one])
    assert.deepEqual(await backend.keyed(key).jobs.claim(request), first)
    assert.deepEqual(ids(await backend.jobs.claim(request)), [two])
  })

  test('a large answer is given again byte for byte', async () => {
    await using backend = await open()
    const payload = JSON.stringify('é'.repeat(131_000))
    await backend.jobs.add(Array.from({ length: 6 }, () => aJob({ payload })))
    const key = aKey()
    const first = await claim(keyed(backend, key))
    assert.equal(first.length, 6)
    assert.deepEqual(await claim(keyed(backend, key)), first)
  })

  test('the first write of a view takes its key; reads and later writes are unaffected', async () => {
    await using backend = await open()
    const key = aKey()
    const { jobs } = backend.keyed(key)
    assert.deepEqual(await jobs.list({ limit: 10 }), [])
    const [first] = await jobs.add([aJob()])
    const [second] = await jobs.add([aJob()])
    assert.notEqual(second?.id, first?.id)
    assert.equal((await jobs.find(first!.id))?.state, 'ready')
    assert.equal((await jobs.stats())[0]?.ready, 2)
    assert.deepEqual(await jobs.reclaim(10), { ready: 0, dead: 0, cancelled: 0 })
    assert.equal((await addKeyed(backend, key)).id, first?.id)
    assert.equal((await backend.jobs.list({ limit: 10 })).length, 2)
  })

  test.runIf(sql)("a write in a caller's transaction neither checks nor stores a request key", async () => {
    await using backend = await open()
    await using caller = await sql!.connect()
    const key = aKey()
    await caller.begin()
    const [added] = await backend.keyed(key).jobs.add([aJob()], caller.tx)
    await caller.rollback()
    assert.equal(await backend.jobs.find(added!.id), undefined)
    const { id } = await addKeyed(backend, key)
    await caller.begin()
    const [again] = await backend.keyed(key).jobs.add([aJob()], caller.tx)
    await caller.commit()
    assert.notEqual(again?.id, id)
    assert.equal((await find(backend, again!.id)).state, 'ready')
  })

  test('an expired key counts as unused, also for a different request', async () => {
    await using backend = await open()
    const key = aKey({ keepMs: shortMs })
    const before = await find(backend, await addOne(backend))
    const first = await addKeyed(backend, key)
    const other = { ...key, fingerprint: fingerprintOf('another body'), keepMs: longMs }
    let second: Added | undefined
    await until('the key is free again', async () => {
      try {
        second = await addKeyed(backend, other)
        return true
      } catch (error) {
        assert.ok(isSignalboxError(error, 'idempotency_mismatch'))
        return false
      }
    })
    assert.notEqual(second?.id, first.id)
    const { createdAt } = await find(backend, second!.id)
    assert.ok(createdAt >= before.createdAt + shortMs, 'not before its time')
    assert.deepEqual(await addKeyed(backend, other), second)
    await assert.rejects(addKeyed(backend, key), { code: 'idempotency_mismatch' })
  })

  test('pruning deletes only expired keys, and at most as many as asked for', async () => {
    await using backend = await open()
    await until('those of before are forgotten', async () => (await backend.pruneKeys(100)) === 0)
    const lasting = aKey()
    const kept = await addKeyed(backend, lasting)
    for (let i = 0; i < 5; i++) {
      await addKeyed(jobsOf(backend.within(aNamespace())), aKey({ keepMs: 1 }))
    }
    const pruned: number[] = []
    await until('all five are forgotten', async () => {
      pruned.push(await backend.pruneKeys(2))
      return pruned.reduce((sum, count) => sum + count) >= 5
    })
    assert.equal(Math.max(...pruned), 2)
    assert.equal(await backend.pruneKeys(100), 0)
    assert.deepEqual(await addKeyed(backend, lasting), kept)
  })

  test('fifty concurrent requests with different keys are each executed once', async () => {
    await using backend = await open()
    const keys = Array.from({ length: 50 }, () => aKey())
    const added = await Promise.all(keys.map((key) => addKeyed(backend, key)))
    assert.equal(new Set(ids(added)).size, 50)
    assert.equal((await backend.jobs.list({ limit: 100 })).length, 50)
    assert.deepEqual(await Promise.all(keys.map((key) => addKeyed(backend, key))), added)
    assert.equal((await backend.jobs.list({ limit: 100 })).length, 50)
  })

  test('workers that claim at once with different keys never get the same job', async () => {
    await using backend = await open()
    await backend.jobs.add(Array.from({ length: 20 }, () => aJob()))
    const keys = Array.from({ length: 20 }, () => aKey())
    const claimOnce = (key: RequestKey) => claim(keyed(backend, key), { limit: 1 })
    const claimed = await Promise.all(keys.map(claimOnce))
    assert.equal(new Set(ids(claimed.flat())).size, 20)
    assert.deepEqual(await Promise.all(keys.map(claimOnce)), claimed)
  })

  test.runIf(isShared)('a key survives closing and reopening the store', async () => {
    const namespace = aNamespace()
    const key = aKey()
    const before = await open({ namespace })
    const added = await addKeyed(before, key)
    await before.close()
    await using after = await open({ namespace })
    assert.deepEqual(await addKeyed(after, key), added)
  })

  test('a closed backend refuses calls with a key and the pruning of keys', async () => {
    const backend = await open({ namespace: aNamespace() })
    const { jobs } = backend.keyed(aKey())
    await backend.close()
    await assert.rejects(jobs.add([aJob()]), { code: 'closed' })
    await assert.rejects(claim(keyed(backend, aKey())), { code: 'closed' })
    await assert.rejects(backend.pruneKeys(1), { code: 'closed' })
  })
}

/** The backend as a request with this key sees it, created for each call as a server does. */
function keyed(backend: Backend, key: RequestKey): Backend {
  return { ...backend, jobs: backend.keyed(key).jobs }
}

/** Adds a new job, unless this key has done so before. */
async function addKeyed(backend: Pick<Backend, 'keyed'>, key: RequestKey): Promise<Added> {
  const jobs: JobStore = backend.keyed(key).jobs
  const [added, ...more] = await jobs.add([aJob()])
  assert.equal(more.length, 0)
  return added!
}
