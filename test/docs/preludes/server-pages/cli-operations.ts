import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { join } from 'node:path'
import { Client } from 'pg'
import { open } from 'signalbox'
import { createClient } from 'signalbox/client'
import { addresses } from '../../addresses.ts'
import { around, check, replace, shellEnvironment } from '../../prelude.ts'

const main = join(import.meta.dirname, '../../../../src/cli/main.ts')

// The page makes tokens, and once there is one its server asks for them.
{
  using client = createClient(addresses.server!)
  shellEnvironment.SIGNALBOX_TOKEN = (
    await client.tokens.create({ name: 'reader', scope: 'admin', namespace: '*' })
  ).secret
}
using operator = createClient(addresses.server!, { token: shellEnvironment.SIGNALBOX_TOKEN! })
const revocable = (await operator.tokens.create({ name: 'old', scope: 'read' })).id
replace('01k9z3v8qe0m4t9wq3rb5c7xkd', revocable)
// The test databases keep little on disk and have no TLS, and doctor warns of both; a check below looks at --strict.
replace(' --strict', '')

// A copy needs a source without workers and an empty target.
let isCopy = false
const spare = `signalbox_docs_copy_${process.pid}`
replace('sqlite:signalbox.db', () => (isCopy ? 'sqlite:source.db' : 'sqlite:signalbox.db'))
const spareUrl = Object.assign(new URL(addresses.postgres!), { pathname: `/${spare}` })
replace('postgres://app@db/shop', () => (isCopy ? spareUrl.href : addresses.postgres!))
around(async ({ key }) => {
  isCopy = key === 'signalbox copy'
  if (!isCopy) return
  await using source = await open('sqlite:source.db')
  await source.jobs.add('mail', { to: 'ada' })
  const client = new Client(addresses.postgres)
  await client.connect()
  await client.query(`CREATE DATABASE ${spare} TEMPLATE template0`)
  return async () => {
    await client.query(`DROP DATABASE ${spare} WITH (FORCE)`)
    await client.end()
  }
})

check('signalbox demo', ({ output }) => assert.match(output, /"faultCount":0/))
check('signalbox doctor', () => {
  const strict = spawnSync(process.execPath, [main, 'doctor', '--strict'], { encoding: 'utf8' })
  assert.ok(strict.status === 1 && /warning/.test(strict.stdout), strict.stdout + strict.stderr)
})
check('signalbox token', ({ output }) => assert.match(output, /^sbx_/m))
