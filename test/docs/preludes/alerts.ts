import assert from 'node:assert/strict'
import { box } from '../box.ts'
import { check } from '../prelude.ts'

export * from '../box.ts'

check('Alerts', ({ data }) => assert.equal(JSON.parse(data).type, 'slack'))

check('Alerts #2', async ({ output }) => {
  assert.match(output, /1 channel gets a test alert/)
  const [subscription] = await box.monitor.subscriptions()
  assert.deepEqual([subscription?.name, subscription?.match.source], ['on-call', 'signalbox'])
})
