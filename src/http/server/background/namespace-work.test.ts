import assert from 'node:assert/strict'
import { test } from 'vitest'
import { within } from '../../../../test/support/deadline.ts'
import { createLoop, type Loop } from '../../../core/loop.ts'
import { createNamespaceWork } from './namespace-work.ts'

test('with more busy namespaces than loops, each namespace gets its turn', async () => {
  const running = new Set<string>()
  let most = 0
  const served = new Set<string>()
  const { promise: allServed, resolve } = Promise.withResolvers<void>()
  const names = Array.from({ length: 6 }, (_, at) => `n${at}`)
  // The soonest due first: one that has run is due after all the others.
  const line = [...names]
  function begin(namespace: string): Loop {
    running.add(namespace)
    served.add(namespace)
    most = Math.max(most, running.size)
    line.splice(line.indexOf(namespace), 1)
    line.push(namespace)
    if (served.size === names.length) resolve()
    const loop = createLoop({ name: 'test', idleMs: 60_000, step: async (): Promise<'idle'> => 'idle' })
    loop.events.on('stopped', () => running.delete(namespace))
    return loop
  }
  const loops = createNamespaceWork({
    ...{ name: 'test.loops', max: 2, begin },
    find: async (limit) => line.slice(0, limit),
  })
  await within(30_000, 'all had a loop', allServed)
  await loops.stop()
  assert.deepEqual([...served].toSorted(), names)
  assert.ok(most <= 4, 'no more than those that are wanted and those that are being stopped')
  assert.equal(running.size, 0)
})
