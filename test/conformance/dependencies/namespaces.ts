import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { Backend } from '../../../src/storage/backend.ts'
import { aNamespace, type Candidate } from '../candidates.ts'
import { addOne } from '../jobs/making.ts'
import { addLocked, addNeeding } from './making.ts'

/** A process that serves all namespaces can list those in which a job waits for something. */
export function blockedNamespacesContract({ open }: Pick<Candidate, 'open'>): void {
  test('a namespace is listed while a job in it waits for another job or for a lock', async () => {
    await using backend = await open({ namespace: aNamespace() })
    const names = [aNamespace(), aNamespace(), aNamespace()]
    const [needing, locked, plain] = names.map((name) => backend.within(name) as Backend)
    // The engine's database is shared with other tests, and so are its namespaces.
    const known = async () => {
      const all = new Set(await backend.blockedNamespaces(10_000))
      return names.filter((name) => all.has(name))
    }
    await addOne(plain!)
    assert.deepEqual(await known(), [])
    const jobId = await addNeeding(needing!, ['a', 'b'])
    const other = await addLocked(locked!)
    assert.deepEqual(await known(), names.slice(0, 2))
    assert.equal((await backend.blockedNamespaces(1)).length, 1)
    await needing!.dependencies.meet([{ jobId, dependencyId: 'a' }])
    assert.deepEqual(await known(), names.slice(0, 2))
    await needing!.dependencies.meet([{ jobId, dependencyId: 'b' }])
    await locked!.jobs.remove([other])
    assert.deepEqual(await known(), [])
  })

  test('a closed backend refuses to list namespaces with dependencies', async () => {
    const backend = await open({ namespace: aNamespace() })
    await backend[Symbol.asyncDispose]()
    await assert.rejects(backend.blockedNamespaces(1), { code: 'closed' })
    await assert.rejects(backend.dependencies.unmet({ limit: 1 }), { code: 'closed' })
    await assert.rejects(backend.dependencies.tend({ limit: 1, tendMs: 1 }), { code: 'closed' })
    await assert.rejects(backend.jobs.setLimits('mail', null), { code: 'closed' })
  })
}
