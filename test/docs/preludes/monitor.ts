import assert from 'node:assert/strict'
import { type Box, open } from 'signalbox'
import { startReceiver } from '../../support/robots/index.ts'
import { around, check, replace } from '../prelude.ts'

const receiver = await startReceiver({ secret: 'a-secret-of-yours' })
replace('https://hooks.example.com/changes', receiver.url)

export let box: Box
around(async () => {
  box = await open('sqlite:signalbox.db', { allowPrivate: ['127.0.0.0/8'] })
  // Subscribers of an earlier block would be notified as well.
  for (const { id } of await box.monitor.subscriptions()) await box.monitor.unsubscribe(id)
  return () => box.close()
})

const place = { source: 'booking', subject: 'court-1' }
check('From a report to a message', async () => {
  const why = await box.monitor.explain(place)
  assert.equal(why.present?.state, 'free')
})
check('Explain', ({ values: { why } }) => {
  assert.deepEqual(Object.keys(why.present), ['state', 'observedAt', 'changedAt'])
  assert.deepEqual(why.windows, [])
  const [decision] = why.decisions
  assert.equal(decision.reason, 'new')
  for (const field of ['reason', 'from', 'to', 'taskId', 'decidedAt', 'verdicts'])
    assert.ok(field in decision, field)
})
