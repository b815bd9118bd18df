import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { NodeView } from '../node.ts'
import { decodeUsage, encodeUsage, waitingByService } from './server-list.ts'

const service = { name: 'nmt', slots: 4, tags: {}, used: 3, cordoned: false, restsUntil: null }
const node: NodeView = {
  nodeId: 'n',
  instanceId: 'i',
  epoch: 9,
  status: 'ready',
  via: null,
  draining: false,
  cordoned: false,
  overloaded: false,
  heldFor: null,
  services: [service, { ...service, name: 'tts', used: 0, restsUntil: 2_000 }],
  labels: {},
  load: { cpu: 0.12345, gpu: null, memory: 1 },
  taskIds: [],
  seenAt: 0,
  joinedAt: 0,
}

test('the use of a node is encoded in a few numbers, and decoded from them', () => {
  const numbers = encodeUsage(node, 1_000)
  assert.deepEqual(numbers, [9, 0, 0.123, null, 1, 3, -1])
  assert.deepEqual(decodeUsage(numbers), {
    epoch: 9,
    status: 'ready',
    overloaded: false,
    load: { cpu: 0.123, gpu: null, memory: 1 },
    isOpen: true,
    services: [
      { used: 3, isOpen: true },
      { used: 0, isOpen: false },
    ],
  })
})

test('a node that takes no work for any reason is not open', () => {
  const closed: Partial<NodeView>[] = [
    { status: 'suspect' },
    { status: 'gone' },
    { draining: true },
    { cordoned: true },
    { overloaded: true },
    { heldFor: 't' },
  ]
  for (const change of closed) {
    const read = decodeUsage(encodeUsage({ ...node, ...change }, 1_000))
    assert.equal(read.isOpen, false, JSON.stringify(change))
    assert.equal(read.status, change.status ?? 'ready')
    assert.equal(read.overloaded, change.overloaded ?? false)
  }
})

test('waiting tasks are written by service, with the oldest one, for at most a thousand services', () => {
  const waits = (service: string, waiting: number, oldestAt: number) => ({
    ...{ waiting, oldestAt },
    asked: { service, uses: { [service]: 1 }, requires: [] },
  })
  const few = [waits('asr', 3, 900), waits('mt', 1, 700), waits('asr', 2, 400), waits('tts', 0, 1)]
  assert.deepEqual(waitingByService(few, 1_000), { asr: [5, 600], mt: [1, 300] })
  const many = Array.from({ length: 1_100 }, (_, nr) => waits(`s${nr}`, 1 + nr, 0))
  const kept = waitingByService(many, 1)
  assert.deepEqual([Object.keys(kept).length, 's99' in kept, 's1099' in kept], [1_000, false, true])
})
