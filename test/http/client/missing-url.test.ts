import assert from 'node:assert/strict'
import { open } from 'signalbox'
import { connectNode, createClient } from 'signalbox/client'
import { test } from 'vitest'

test('every function that takes a URL refuses a missing one with a message that says so', async () => {
  for (const missing of [undefined, null, ''] as (string | undefined)[]) {
    const refused = (call: string) => ({
      code: 'invalid_argument',
      message: new RegExp(
        `^${call} got no URL: it is (undefined|null|empty text)\\. If it comes from an environment variable`,
      ),
    })
    await assert.rejects(open(missing), refused('open'))
    await assert.rejects(open(missing, { migrate: true }), refused('open'))
    await assert.rejects(open(missing, { token: 't' }), refused('open'))
    assert.throws(() => createClient(missing), refused('createClient'))
    const options = { nodeId: 'n', services: [], onTask: () => undefined }
    await assert.rejects(connectNode(missing, options), refused('connectNode'))
  }
})
