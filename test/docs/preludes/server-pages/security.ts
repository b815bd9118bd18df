import assert from 'node:assert/strict'
import { createClient } from 'signalbox/client'
import { addresses } from '../../addresses.ts'
import { around, check, replace } from '../../prelude.ts'

let admin: string
let revocable: string
around(async ({ key }) => {
  if (key !== 'Tokens') return
  using client = createClient(addresses.server!)
  admin = (await client.tokens.create({ name: 'Ada', scope: 'admin', namespace: '*' })).secret
  using operator = createClient(addresses.server!, { token: admin })
  revocable = (await operator.tokens.create({ name: 'old', scope: 'read' })).id
})
replace('01k9z3v8qe0m4t9wq3rb5c7xkd', () => revocable)

check('Tokens', ({ output }) => {
  assert.match(output, /"items":\[\]/)
  assert.match(output, /\bci\b/)
  assert.match(output, /revoked/)
})

check('The audit', async ({ data }) => {
  using client = createClient(addresses.server!, { token: admin })
  const { items } = await client.audit.list()
  assert.deepEqual(Object.keys(data), Object.keys(items[0]!))
  assert.deepEqual(Object.keys(data.actor), Object.keys(items[0]!.actor))
})
