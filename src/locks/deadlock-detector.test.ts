import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createDeadlockDetector } from './deadlock-detector.ts'
import type { LockKey, LockStore, WaitingHolder } from './lock-store.ts'
import type { LocksParts } from './locks.ts'
import { locksDefaults, resolveLocksOptions } from './locks-options.ts'

const queue = (operation: string): LockKey => ({ operation, resource: 'r' })

function holder(node: string, holds: string, waitsFor: string, seq: number, token = 1): WaitingHolder {
  return { who: { node, requestId: 'q' }, holds: queue(holds), token, waitsFor: queue(waitsFor), seq }
}

/** A store that answers from what it is told at each look, and notes what was asked and ended. */
function createStage(looks: readonly (readonly WaitingHolder[])[], options = {}) {
  const asked: string[][] = []
  const ended: string[] = []
  let look = 0
  const store = {
    async findWaitingHolders(keys: readonly LockKey[]) {
      const operations = keys.map(({ operation }) => operation)
      asked.push(operations)
      const known = looks[Math.min(look++, looks.length - 1)]!
      return known.filter(({ holds }) => operations.includes(holds.operation))
    },
    async fail(key: LockKey, { node, seq }: { node: string; seq: number }, value: string) {
      ended.push(`${node} for ${key.operation} at ${seq}: ${JSON.parse(value).code}`)
      return { failed: true, notified: { requesters: [], everyone: false, changed: true }, revision: 1 }
    },
  } as unknown as LockStore
  const notifier = { wake: () => undefined, listen: () => () => undefined }
  const parts: LocksParts = { store, notifier, remoteWakeUps: true }
  return { detector: createDeadlockDetector(parts, resolveLocksOptions(options)), asked, ended }
}

const circle = [holder('A', 'a', 'b', 5), holder('B', 'b', 'a', 7)]

test('a circle of waits is followed from a suspected queue; its youngest wait ends after two sightings', async () => {
  const { detector, asked, ended } = createStage([circle])
  detector.suspect(queue('a'))
  await detector.look()
  assert.deepEqual(asked, [['a'], ['b'], ['a'], ['b']])
  assert.deepEqual(ended, ['B for a at 7: deadlock'])
})

test('a suspected wait queue is checked once, and without suspects the store is not asked', async () => {
  const { detector, asked } = createStage([[]])
  await detector.look()
  assert.deepEqual(asked, [])
  detector.suspect(queue('a'))
  detector.suspect(queue('a'))
  await detector.look()
  await detector.look()
  assert.deepEqual(asked, [['a']], 'a holder that waits nowhere costs one look')
})

test('a circle of waits from different moments is no deadlock', async () => {
  const [a, b] = circle as [WaitingHolder, WaitingHolder]
  for (const changed of [
    { ...a, token: 2 },
    { ...a, seq: 6 },
  ]) {
    const { detector, ended } = createStage([
      [a, b],
      [a, b],
      [changed, b],
    ])
    detector.suspect(queue('a'))
    await detector.look()
    assert.deepEqual(ended, [])
  }
  const { detector, ended } = createStage([[a, b], [a, b], [b]])
  detector.suspect(queue('a'))
  await detector.look()
  assert.deepEqual(ended, [])
})

test('wait queues that exclude each other are read together', async () => {
  const { detector, asked, ended } = createStage([[holder('A', 'pull', 'delete', 5)]], {
    conflicts: [['pull', 'delete']],
  })
  detector.suspect(queue('delete'))
  await detector.look()
  assert.deepEqual(asked[0], ['delete', 'pull'])
  assert.deepEqual(ended, ['A for delete at 5: deadlock'])
})

test('an endless chain of waits is followed up to a limit', async () => {
  let links = 0
  const store = {
    async findWaitingHolders([key]: readonly LockKey[]) {
      links++
      return [holder(`n${links}`, key!.operation, `l${links}`, links)]
    },
  } as unknown as LockStore
  const notifier = { wake: () => undefined, listen: () => () => undefined }
  const detector = createDeadlockDetector(
    { store, notifier, remoteWakeUps: true },
    resolveLocksOptions(locksDefaults),
  )
  detector.suspect(queue('start'))
  await detector.look()
  assert.ok(links <= 100, `${links} looks`)
})
