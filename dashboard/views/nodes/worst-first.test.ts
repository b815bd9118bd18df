import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { WireNode } from '../../../src/http/client/index.ts'
import { worstNodesFirst } from './worst-first.ts'

const well: WireNode = {
  ...{ nodeId: '', instanceId: 'i', epoch: 1, status: 'ready', via: null, heldFor: null },
  ...{ draining: false, cordoned: false, overloaded: false, services: [], labels: {}, taskIds: [] },
  ...{ load: { cpu: null, gpu: null, memory: null }, seenAt: 1, joinedAt: 1 },
}

test('nodes with a problem come first, and the others stay in the order of their names', () => {
  const nodes: readonly WireNode[] = [
    { ...well, nodeId: 'b' },
    { ...well, nodeId: 'a' },
    { ...well, nodeId: 'draining', draining: true },
    { ...well, nodeId: 'overloaded', overloaded: true },
    { ...well, nodeId: 'suspect', status: 'suspect' },
    { ...well, nodeId: 'gone', status: 'gone' },
  ]
  assert.deepEqual(
    worstNodesFirst(nodes).map(({ nodeId }) => nodeId),
    ['gone', 'suspect', 'overloaded', 'draining', 'a', 'b'],
  )
})
