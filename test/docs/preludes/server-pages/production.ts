import assert from 'node:assert/strict'
import { addresses } from '../../addresses.ts'
import { check } from '../../prelude.ts'

export * from '../../box.ts'

check('Backups', ({ output }) => {
  assert.match(output, /^\d+ pages$/m)
  assert.match(output, /^0 problems/m)
})

// An alert on a metric that does not exist never fires.
check('Metrics and alerts', async ({ data }) => {
  const names = new Set(String(data).match(/\b(?:signalbox|nodejs)_\w+/g))
  assert.ok(names.size >= 12)
  const text = await (await fetch(`${addresses.server}/metrics`)).text()
  for (const name of names) assert.ok(text.includes(`# TYPE ${name} `), `there is no metric ${name}`)
})

check('In production', ({ output }) => assert.equal(JSON.parse(output).problem, 0))

check('When jobs pile up', ({ output }) => assert.match(output, /problems?, \d+ warnings?/))
