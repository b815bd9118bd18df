import assert from 'node:assert/strict'
import { connectNode } from 'signalbox/client'
import { addresses } from '../addresses.ts'
import { around, check } from '../prelude.ts'

export async function translate(payload: unknown, _signal: AbortSignal): Promise<unknown> {
  return { said: payload }
}

// A submitted task needs a node.
around(async ({ key }) => {
  if (key !== 'Submit a task') return
  const node = await connectNode(addresses.server!, {
    nodeId: 'gpu-8',
    services: [
      { name: 'asr', slots: 1 },
      { name: 'nmt', slots: 1, tags: { pair: ['zh>en'] } },
      { name: 'tts', slots: 1 },
    ],
    onTask: (task) => ({ said: task.payload }),
  })
  return () => node.close()
})

check('Submit a task', ({ values, output }) => {
  assert.deepEqual(
    [values.status, values.output, values.error],
    ['completed', { said: { audio: 's3://calls/17.ogg' } }, null],
  )
  assert.match(output, /completed/)
})
