import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { ServerFrame } from './connections/node-connection.ts'
import { EffectRunner } from './effect-runner.ts'
import type { Engine } from './engine.ts'

test('a node that answers for a task that is being handed back gets task.stale', () => {
  const sent: ServerFrame[] = []
  const claim = { jobId: 't1', attempt: 2, isEnding: false, spec: { uses: { nmt: 1 } } }
  let told = () => {}
  const runner = new EffectRunner({
    claims: new Map([['t1', claim]]),
    connections: { send: (_node: string, _epoch: number, frame: ServerFrame) => sent.push(frame) },
    yield: (_: unknown, done: () => void) => {
      claim.isEnding = true
      told = done
    },
    log: assert.fail,
  } as unknown as Engine)
  runner.run([{ kind: 'handBack', taskId: 't1', attempt: 2 }], { kind: 'tick' })
  const from = { nodeId: 'n1', epoch: 7, taskId: 't1', attempt: 1 }
  runner.run([{ kind: 'unknownTask', ...from, said: 'result' }], { kind: 'tick' })
  assert.deepEqual(sent, [], 'not before it is known what becomes of it')
  told()
  assert.deepEqual(sent, [{ type: 'task.stale', taskId: 't1', attempt: 1 }])
})
