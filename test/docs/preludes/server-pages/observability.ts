import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { errorCodes } from '../../../../src/core/errors.ts'
import { addresses } from '../../addresses.ts'
import { check } from '../../prelude.ts'

check('Health, metrics and logs', ({ output }) => assert.match(output, /^signalbox_store_up 1$/m))

// The example has the form of an answer, and the words of a server that drains.
check('Health', async ({ data }) => {
  const ready = (await (await fetch(`${addresses.server}/readyz`)).json()) as {
    checks: { name: string }[]
  }
  assert.deepEqual(Object.keys(data), Object.keys(ready))
  const checks = data.checks as readonly { name: string; detail?: string }[]
  const known = new Set(ready.checks.map(({ name }) => name))
  for (const { name } of checks) assert.ok(known.has(name), `there is no check ${name}`)
  assert.equal(checks.at(-1)?.detail, `draining: ${errorCodes.draining.meaning}`)
})

const page = readFileSync(new URL('../../../../docs/observability.md', import.meta.url), 'utf8')

check('Metrics', async ({ data }) => {
  assert.match(data, /job_name: signalbox/)
  const text = await (await fetch(`${addresses.server}/metrics`)).text()
  const there = new Set(Array.from(text.matchAll(/^# TYPE (signalbox_\w+) /gm), ([, name]) => name))
  const named = new Set(Array.from(page.matchAll(/^\| `(signalbox_\w+)`/gm), ([, name]) => name))
  for (const name of named) assert.ok(there.has(name), `there is no metric ${name}`)
  const elsewhere = ['signalbox_hold_seconds', 'signalbox_waited_on_seconds_total']
  for (const name of there)
    assert.ok(named.has(name) || elsewhere.includes(name!), `the page does not name ${name}`)
})

// The example has the fields of an answer.
check('Scaling #2', async ({ data }) => {
  const response = await fetch(`${addresses.server}/v1/scaling?queue=mail`)
  const answer = (await response.json()) as object
  assert.deepEqual(Object.keys(data as object).sort(), Object.keys(answer).sort())
})
