import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { ClusterKind } from '../../../src/dispatch/cluster/cluster-store.ts'
import { aNamespace, type Candidate } from '../candidates.ts'
import { ClusterStage } from './stage.ts'

/** A process that serves all namespaces can list those with nodes or with tasks for nodes. */
export function dispatchedContract({ open }: Pick<Candidate, 'open'>): void {
  test('a namespace is listed while it has nodes or tasks for nodes', async () => {
    await using backend = await open({ namespace: aNamespace() })
    const kinds: readonly ClusterKind[] = ['server', 'node', 'demand', 'pool', 'cordon', 'drain']
    const names = new Map(kinds.map((kind) => [kind, aNamespace()]))
    // The engine's database is shared with other tests, and so are its namespaces.
    const known = async () => {
      const all = new Set(await backend.dispatchedNamespaces(10_000))
      return kinds.filter((kind) => all.has(names.get(kind)!))
    }
    assert.deepEqual(await known(), [])
    const versions = new Map<ClusterKind, number>()
    for (const [kind, name] of names)
      versions.set(kind, await new ClusterStage(backend.within(name)).made('a', { kind, forMs: 1 }))
    assert.deepEqual(await known(), ['node', 'demand'])
    assert.equal((await backend.dispatchedNamespaces(1)).length, 1)
    await new ClusterStage(backend.within(names.get('node')!)).made('a', {
      ...{ kind: 'node', seen: versions.get('node')!, doc: null },
    })
    assert.deepEqual(await known(), ['demand'])
  })

  test('a closed backend refuses to list namespaces with nodes', async () => {
    const backend = await open({ namespace: aNamespace() })
    await backend[Symbol.asyncDispose]()
    await assert.rejects(backend.dispatchedNamespaces(1), { code: 'closed' })
  })
}
