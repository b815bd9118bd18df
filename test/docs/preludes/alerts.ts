import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { box } from '../box.ts'
import { check } from '../prelude.ts'

export * from '../box.ts'

writeFileSync(
  'channel.json',
  JSON.stringify({ type: 'slack', url: 'https://hooks.slack.com/services/T0/B0/x' }),
)

check('Alerts', async ({ output }) => {
  assert.match(output, /1 channels get a test alert/)
  const [subscription] = await box.monitor.subscriptions()
  assert.deepEqual([subscription?.name, subscription?.match.source], ['on-call', 'signalbox'])
})
