import assert from 'node:assert/strict'
import { test } from 'vitest'
import { aNamespace, type Candidate } from '../candidates.ts'
import { aJob, longMs, until, verdictOf } from './making.ts'

/** A process that serves all namespaces can list those with live jobs of a queue. */
export function queuedContract({ open }: Pick<Candidate, 'open'>): void {
  test('a namespace is listed while a live job of the queue has a key there', async () => {
    await using backend = await open({ namespace: aNamespace() })
    const [ready, later, running, unkeyed] = [aNamespace(), aNamespace(), aNamespace(), aNamespace()]
    const elsewhere = aNamespace()
    const names = [ready, later, running, unkeyed, elsewhere]
    const queue = 'own.queue'
    // The engine's database is shared with other tests, and so are its namespaces.
    const known = async () => {
      const all = await backend.queuedNamespaces(queue, 10_000)
      assert.equal(new Set(all).size, all.length)
      return names.filter((name) => all.includes(name))
    }
    assert.deepEqual(await known(), [])
    const key = { queue, uniqueKey: 'k' }
    await backend.within(ready).jobs.add([aJob(key), aJob({ ...key, uniqueKey: 'other' }), aJob()])
    await backend.within(later).jobs.add([aJob({ ...key, due: { delayMs: longMs } })])
    const { jobs } = backend.within(running)
    await jobs.add([aJob(key)])
    const claimAll = { queues: [queue], kinds: null, workerId: 'w', limit: 1, leaseMs: longMs }
    const [claimed] = await jobs.claim(claimAll)
    await backend.within(unkeyed).jobs.add([aJob({ queue })])
    await backend
      .within(elsewhere)
      .jobs.add([aJob({ uniqueKey: 'k' }), aJob({ queue: 'own', uniqueKey: 'k' })])
    assert.deepEqual(await known(), [ready, later, running])
    assert.equal((await backend.queuedNamespaces(queue, 1)).length, 1)
    await jobs.settle([verdictOf(claimed!)])
    await until('it is over', async () => (await known()).length === 2)
    assert.deepEqual(await known(), [ready, later])
  })

  test('a closed backend refuses to list namespaces with jobs', async () => {
    const backend = await open({ namespace: aNamespace() })
    await backend[Symbol.asyncDispose]()
    await assert.rejects(backend.queuedNamespaces('own.queue', 1), { code: 'closed' })
  })
}
