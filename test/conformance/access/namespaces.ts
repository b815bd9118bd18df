import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { Backend, BackendNotifier, Stores } from '../../../src/storage/backend.ts'
import { aNamespace, type Candidate } from '../candidates.ts'
import { keepApart } from '../jobs/apart.ts'
import { addOne, aJob, claim, ids, runningJob, settleOne, verdictOf } from '../jobs/making.ts'
import { aKey, jobsOf } from './asking.ts'

/** One backend serves many namespaces, and none of them sees another. */
export function namespacesContract({ open, isShared, sql }: Candidate): void {
  test('namespaces of one backend do not see each other', async () => {
    await using backend = await open()
    const [mine, yours] = [viewOf(backend), viewOf(backend)]
    await keepApart(mine, yours)
    assert.deepEqual(await backend.jobs.list({ limit: 10 }), [])
  })

  test('all views of one namespace see the same data', async () => {
    const namespace = aNamespace()
    await using backend = await open({ namespace })
    const views = [backend, jobsOf(backend.within(namespace)), jobsOf(backend.within(namespace))]
    const [own, again, other] = views as [Backend, Backend, Backend]
    const id = await addOne(again)
    for (const { jobs } of views) assert.equal((await jobs.find(id))?.id, id)
    await other.jobs.pause('mail')
    assert.deepEqual(await claim(own), [])
    await own.jobs.resume('mail')
    const [claimed] = await claim(again)
    assert.equal(await settleOne(own, claimed!), true)
    const key = aKey()
    const added = await own.keyed(key).jobs.add([aJob()])
    assert.deepEqual(await again.keyed(key).jobs.add([aJob()]), added)
  })

  test.runIf(isShared)(
    'a view of a namespace sees the same data as a backend opened for that namespace',
    async () => {
      const namespace = aNamespace()
      await using backend = await open()
      await using opened = await open({ namespace })
      const view = jobsOf(backend.within(namespace))
      const id = await addOne(view)
      assert.deepEqual(await opened.jobs.find(id), await view.jobs.find(id))
      const [claimed] = await claim(opened)
      assert.equal(await settleOne(view, claimed!), true)
    },
  )

  test('namespace names that are nearly equal, or equal once joined with a key, stay separate', async () => {
    await using backend = await open()
    const base = aNamespace()
    const names = ['', ':', ':a', ' ', '.', '%', '_', 'é', 'e\u0301', '🚂', '\\', "'"].map(
      (end) => `${base}${end}`,
    )
    names.push(base.toUpperCase(), `1:${base}`, `${base.length}:${base}`)
    const made: [Stores, string][] = []
    for (const name of names) {
      const view = jobsOf(backend.within(name))
      // Each job has the same key. Its queue completes the part that the namespace lacks.
      const [added] = await view.keyed(aKey({ key: 'k' })).jobs.add([aJob({ queue: ':a', uniqueKey: 'u' })])
      assert.equal(added?.duplicate, false, name)
      made.push([view, added.id])
    }
    for (const [view, id] of made) assert.deepEqual(ids(await view.jobs.list({ limit: 50 })), [id])
    assert.equal(new Set(made.map(([, id]) => id)).size, names.length)
  })

  test('two namespaces of 191 four-byte characters that differ only in the last stay separate', async () => {
    await using backend = await open()
    const name = '🚂'.repeat(190)
    const [one, other] = [backend.within(`${name}🚃`), backend.within(`${name}🚄`)]
    const key = aKey()
    const queue = name
    const job = { queue, kind: name, uniqueKey: name }
    const [first] = await one.keyed(key).jobs.add([aJob(job)])
    const [second] = await other.keyed(key).jobs.add([aJob(job)])
    assert.deepEqual(ids(await one.jobs.list({ queue, limit: 9 })), [first?.id])
    assert.deepEqual(ids(await other.jobs.list({ queue, limit: 9 })), [second?.id])
    const heard = nextWakeUp(one.notifier, name)
    one.notifier.wake(name)
    await heard
    assert.deepEqual(await one.keyed(key).jobs.add([aJob(job)]), [first])
    for (const { jobs } of [one, other]) {
      for (const { id } of await jobs.list({ limit: 9 })) await jobs.cancel(id)
    }
  })

  test('a wake-up reaches only listeners of its namespace', async () => {
    await using backend = await open()
    const base = aNamespace()
    // Each pair is the same text once it is joined with a colon.
    const [short, long] = [backend.within(base), backend.within(`${base}:a`)]
    const heard: string[] = []
    const stops = [
      short.notifier.listen(['b', 'a:b', `${base}:b`], () => heard.push('short')),
      backend.notifier.listen(['b', 'a:b', `${base}:a:b`], () => heard.push('own')),
    ]
    const came = nextWakeUp(long.notifier, 'b')
    long.notifier.wake('b')
    await came
    assert.deepEqual(heard, [])
    // The listener works: it receives the wake-ups of its own topic.
    const cameToo = nextWakeUp(short.notifier, 'a:b')
    short.notifier.wake('a:b')
    await cameToo
    assert.ok(heard.length > 0 && heard.every((who) => who === 'short'), heard.join())
    for (const stop of stops) stop()
  })

  test('a wake-up of one view reaches every view of its namespace', async () => {
    const namespace = aNamespace()
    await using backend = await open({ namespace })
    const heard = [
      nextWakeUp(backend.notifier, 'news'),
      nextWakeUp(backend.within(namespace).notifier, 'news'),
    ]
    backend.within(namespace).notifier.wake('news')
    await Promise.all(heard)
  })

  test('many namespaces can be used at once without seeing each other', async () => {
    await using backend = await open()
    const work = async (view: Backend) => {
      const added = await view.jobs.add([aJob(), aJob(), aJob()])
      const claimed = await claim(view, { limit: 3 })
      assert.deepEqual(ids(claimed).sort(), ids(added).sort())
      assert.deepEqual(await view.jobs.settle(claimed.map((job) => verdictOf(job))), [true, true, true])
    }
    await Promise.all(Array.from({ length: 20 }, () => work(viewOf(backend))))
  })

  test.runIf(sql)('a transaction of the store settles a job of its own namespace only', async () => {
    await using backend = await open()
    const [mine, yours] = [viewOf(backend), viewOf(backend)]
    const claimed = await runningJob(mine)
    const verdict = async () => verdictOf(claimed)
    await assert.rejects(yours.jobs.transact(verdict, { timeoutMs: 0 }), { code: 'lease_lost' })
    const [lost] = await yours.jobs.transactAll([verdict], { timeoutMs: 0 })
    assert.ok(lost)
    await mine.jobs.transact(verdict, { timeoutMs: 0 })
    assert.equal((await mine.jobs.find(claimed.id))?.state, 'completed')
  })

  test('a view of a closed backend refuses every call', async () => {
    const backend = await open()
    const view = jobsOf(backend.within(aNamespace()))
    await backend.close()
    for (const stores of [view, backend.within(aNamespace())]) {
      await assert.rejects(stores.jobs.add([aJob()]), { code: 'closed' })
      await assert.rejects(stores.jobs.list({ limit: 1 }), { code: 'closed' })
      await assert.rejects(stores.keyed(aKey()).jobs.add([aJob()]), { code: 'closed' })
    }
  })
}

/** A new namespace of this backend. */
function viewOf(backend: Backend): Backend {
  return jobsOf(backend.within(aNamespace()))
}

/** Resolves at the next wake-up of the topic. */
function nextWakeUp(notifier: BackendNotifier, topic: string): Promise<void> {
  return new Promise((resolve) => {
    const stop = notifier.listen([topic], () => {
      stop()
      resolve()
    })
  })
}
