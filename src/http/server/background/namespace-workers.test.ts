import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { Space, Spaces } from '../namespace-services.ts'
import { createDispatchers } from './namespace-workers.ts'

/** Dispatchers that do nothing, and say when they start. */
function stage() {
  const started: string[] = []
  const refCounts = new Map<string, number>()
  const broken = new Set<string>()
  let namespaces: readonly string[] = []
  let looks = 0
  const spaces = {
    enter(namespace: string) {
      refCounts.set(namespace, (refCounts.get(namespace) ?? 0) + 1)
      const start = () => {
        if (broken.has(namespace)) throw new Error(`no start in ${namespace}`)
        started.push(namespace)
      }
      return { namespace, dispatch: { start } } as unknown as Space
    },
    leave({ namespace }: Space) {
      refCounts.set(namespace, refCounts.get(namespace)! - 1)
    },
  } as unknown as Spaces
  const served = {
    async dispatchedNamespaces() {
      looks += 1
      return namespaces
    },
  }
  return {
    ...{ started, refCounts, broken, spaces, served },
    has(...names: readonly string[]) {
      namespaces = names
    },
    async looked() {
      const before = looks
      while (looks < before + 2) await new Promise((resolve) => setTimeout(resolve, 5))
    },
  }
}

test("a dispatcher runs wherever there are tasks or nodes, and keeps its namespace's services", async () => {
  const { started, refCounts, spaces, served, has, looked } = stage()
  has('b', 'a')
  const dispatchers = createDispatchers({ served, spaces, pollMs: 5 })
  await looked()
  // In the same order wherever the store begins.
  assert.deepEqual(started, ['a', 'b'])
  has('b', 'c')
  await looked()
  assert.deepEqual(started, ['a', 'b', 'c'])
  assert.deepEqual([...refCounts.values()], [0, 1, 1])
  await dispatchers.stop()
  assert.deepEqual([...refCounts.values()], [0, 0, 0])
})

test('a dispatcher that cannot start delays no other, and is tried again', async () => {
  const { started, refCounts, broken, spaces, served, has, looked } = stage()
  const troubles: string[] = []
  broken.add('a')
  has('a', 'b')
  const onLoopEvent = (_loop: string, trouble: string) => void troubles.push(trouble)
  const dispatchers = createDispatchers({ served, spaces, onLoopEvent, pollMs: 5 })
  await looked()
  assert.deepEqual([started, refCounts.get('a')], [['b'], 0])
  assert.ok(troubles.includes('failed'))
  broken.clear()
  await looked()
  assert.deepEqual(started, ['b', 'a'])
  await dispatchers.stop()
})
