import assert from 'node:assert/strict'
import { connectNode } from 'signalbox/client'
import { addresses } from '../addresses.ts'
import { around, check } from '../prelude.ts'

export async function translate(payload: unknown, _signal: AbortSignal): Promise<unknown> {
  return { said: payload }
}

// Whoever submits needs somebody who does it.
around(async ({ key }) => {
  if (key !== 'A task') return
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

check('A task', ({ values, output }) => {
  assert.deepEqual(
    [values.status, values.output, values.error],
    ['completed', { said: { audio: 's3://calls/17.ogg' } }, null],
  )
  assert.match(output, /completed/)
})
