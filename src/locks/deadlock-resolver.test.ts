import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createUntangler } from './deadlock-resolver.ts'
import type { LockKey, LockStore, Tangle } from './lock-store.ts'
import type { LocksParts } from './locks.ts'
import { locksDefaults, resolveLocksOptions } from './locks-options.ts'

const line = (operation: string): LockKey => ({ operation, resource: 'r' })

function tangle(node: string, holds: string, waitsFor: string, seq: number, token = 1): Tangle {
  return { who: { node, requestId: 'q' }, holds: line(holds), token, waitsFor: line(waitsFor), seq }
}

/** A store that answers from what it is told at each look, and notes what was asked and ended. */
function createStage(looks: readonly (readonly Tangle[])[], options = {}) {
  const asked: string[][] = []
  const ended: string[] = []
  let look = 0
  const store = {
    async entangled(keys: readonly LockKey[]) {
      const operations = keys.map(({ operation }) => operation)
      asked.push(operations)
      const known = looks[Math.min(look++, looks.length - 1)]!
      return known.filter(({ holds }) => operations.includes(holds.operation))
    },
    async fail(key: LockKey, { node, seq }: { node: string; seq: number }, value: string) {
      ended.push(`${node} for ${key.operation} at ${seq}: ${JSON.parse(value).code}`)
      return { failed: true, told: { requesters: [], everyone: false, changed: true }, revision: 1 }
    },
  } as unknown as LockStore
  const notifier = { wake: () => undefined, listen: () => () => undefined }
  const parts: LocksParts = { store, notifier, remoteWakeUps: true }
  return { untangler: createUntangler(parts, resolveLocksOptions(options)), asked, ended }
}

const circle = [tangle('A', 'a', 'b', 5), tangle('B', 'b', 'a', 7)]

test('a circle is followed from a noted line, and its youngest wait ends once it was seen twice', async () => {
  const { untangler, asked, ended } = createStage([circle])
  untangler.suspect(line('a'))
  await untangler.look()
  assert.deepEqual(asked, [['a'], ['b'], ['a'], ['b']])
  assert.deepEqual(ended, ['B for a at 7: deadlock'])
})

test('what was noted is looked at once, and with nothing noted nobody is asked', async () => {
  const { untangler, asked } = createStage([[]])
  await untangler.look()
  assert.deepEqual(asked, [])
  untangler.suspect(line('a'))
  untangler.suspect(line('a'))
  await untangler.look()
  await untangler.look()
  assert.deepEqual(asked, [['a']], 'a holder that waits nowhere costs one look')
})

test('a circle of different moments is none', async () => {
  const [a, b] = circle as [Tangle, Tangle]
  for (const changed of [
    { ...a, token: 2 },
    { ...a, seq: 6 },
  ]) {
    const { untangler, ended } = createStage([
      [a, b],
      [a, b],
      [changed, b],
    ])
    untangler.suspect(line('a'))
    await untangler.look()
    assert.deepEqual(ended, [])
  }
  const { untangler, ended } = createStage([[a, b], [a, b], [b]])
  untangler.suspect(line('a'))
  await untangler.look()
  assert.deepEqual(ended, [])
})

test('lines that exclude each other are looked at together', async () => {
  const { untangler, asked, ended } = createStage([[tangle('A', 'pull', 'delete', 5)]], {
    conflicts: [['pull', 'delete']],
  })
  untangler.suspect(line('delete'))
  await untangler.look()
  assert.deepEqual(asked[0], ['delete', 'pull'])
  assert.deepEqual(ended, ['A for delete at 5: deadlock'])
})

test('a chain without end is followed only so far', async () => {
  let links = 0
  const store = {
    async entangled([key]: readonly LockKey[]) {
      links++
      return [tangle(`n${links}`, key!.operation, `l${links}`, links)]
    },
  } as unknown as LockStore
  const notifier = { wake: () => undefined, listen: () => () => undefined }
  const untangler = createUntangler(
    { store, notifier, remoteWakeUps: true },
    resolveLocksOptions(locksDefaults),
  )
  untangler.suspect(line('start'))
  await untangler.look()
  assert.ok(links <= 100, `${links} looks`)
})
