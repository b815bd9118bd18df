import assert from 'node:assert/strict'
import { test } from 'vitest'
import { type Entrance, enterNode, type NodeDoc } from './node-ownership.ts'

const services = [{ name: 'nmt', slots: 1, tags: {} }]
const at: Entrance = { serverId: 'b', epoch: 100, leastEpoch: 0, now: 5_000 }
const row: NodeDoc = {
  instanceId: 'i1',
  epoch: 7,
  past: ['i0'],
  owner: 'a',
  services,
  labels: { region: 'eu' },
  joinedAt: 1_000,
}
const hello = (instanceId: string) => ({ instanceId, services, labels: {} })

function docOf(entered: ReturnType<typeof enterNode>): NodeDoc {
  assert.equal(entered.kind, 'entered')
  return (entered as Extract<typeof entered, { kind: 'entered' }>).doc
}

test('an unknown node gets the epoch that its server proposes', () => {
  const doc = docOf(enterNode(undefined, hello('i1'), at))
  assert.deepEqual([doc.epoch, doc.owner, doc.past, doc.joinedAt], [100, 'b', [], 5_000])
})

test('the same instance keeps its epoch and moves to the server at which it says hello', () => {
  const doc = docOf(enterNode(row, hello('i1'), at))
  assert.deepEqual([doc.epoch, doc.owner, doc.past, doc.joinedAt], [7, 'b', ['i0'], 1_000])
  assert.deepEqual(doc.labels, {}, 'what it offers now counts')
})

test('an instance that its server gave up starts a new epoch', () => {
  assert.equal(docOf(enterNode(row, hello('i1'), { ...at, leastEpoch: 8 })).epoch, 8)
})

test('another instance takes over with a higher epoch, and the earlier one stays out for good', () => {
  const doc = docOf(enterNode(row, hello('i2'), { ...at, epoch: 3 }))
  assert.deepEqual([doc.epoch, doc.past, doc.joinedAt], [8, ['i0', 'i1'], 5_000])
  assert.deepEqual(enterNode(doc, hello('i1'), at), { kind: 'superseded', epoch: 8 })
  assert.deepEqual(enterNode(doc, hello('i0'), at), { kind: 'superseded', epoch: 8 })
})

test('a bounded number of instances is remembered as taken over', () => {
  let doc: NodeDoc = row
  for (let nr = 2; nr < 20; nr += 1) doc = docOf(enterNode(doc, hello(`i${nr}`), at))
  assert.equal(doc.past.length, 8)
  assert.equal(doc.past.at(-1), 'i18')
})
