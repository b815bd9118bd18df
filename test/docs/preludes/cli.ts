import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { Client } from 'pg'
import { open } from 'signalbox'
import { connectNode, createClient } from 'signalbox/client'
import { addresses } from '../addresses.ts'
import { around, check, command, replace, shellEnvironment } from '../prelude.ts'

const main = join(import.meta.dirname, '../../../src/cli/main.ts')

// The page makes tokens, and once there is one its server asks for them.
{
  using client = createClient(addresses.server!)
  shellEnvironment.SIGNALBOX_TOKEN = (
    await client.tokens.create({ name: 'reader', scope: 'admin', namespace: '*' })
  ).secret
}
using operator = createClient(addresses.server!, { token: shellEnvironment.SIGNALBOX_TOKEN! })
const revocable = (await operator.tokens.create({ name: 'old', scope: 'read' })).id

for (const script of ['deploy.sh', 'report.sh', 'import']) {
  writeFileSync(script, `#!/bin/sh\necho "did $0"\n`, { mode: 0o755 })
}
command('pg_dump', 'echo dumped')

// A job that has ended, so that it can be retried; and the id of a token where one is revoked.
let ended: string
let task: string
let present: string
replace('01k9z3v8qe0m4t9wq3rb5c7xkd', () =>
  present === 'signalbox token' ? revocable : present === 'signalbox tasks' ? task : ended,
)
// The databases of a test keep little on disk and have no TLS, which doctor warns of; being strict is looked at below.
replace(' --strict', '')

around(async ({ key }) => {
  present = key
  await using box = await open('sqlite:signalbox.db')
  ended = (await box.jobs.add('done', null, { queue: 'ended' })).id
  const [job] = await box.jobs.claim({ queues: ['ended'] })
  if (job) await box.jobs.ack(job)
  if (key === 'signalbox tasks') ({ taskId: task } = await box.dispatch.submit({ service: 'nmt' }))
  if (key !== 'signalbox locks, signalbox nodes') return
  await box.locks.acquire({ operation: 'pull', resource: 'nginx', node: 'machine-1', ttlMs: '1h' })
  const token = shellEnvironment.SIGNALBOX_TOKEN!
  const services = [{ name: 'nmt', slots: 1 }]
  const node = await connectNode(addresses.server!, { nodeId: 'gpu-1', token, services, onTask: () => null })
  return () => node.close()
})

// A copy wants a source that nobody works on, and an empty target.
const spare = 'signalbox_docs_copy'
const isCopy = () => present === 'signalbox copy'
replace('sqlite:signalbox.db', () => (isCopy() ? 'sqlite:source.db' : 'sqlite:signalbox.db'))
const spareUrl = Object.assign(new URL(addresses.postgres!), { pathname: `/${spare}_${process.pid}` })
replace('postgres://app@db/shop', () => (isCopy() ? spareUrl.href : addresses.postgres!))
around(async () => {
  if (!isCopy()) return
  await using source = await open('sqlite:source.db')
  await source.jobs.add('mail', { to: 'ada' })
  const client = new Client(addresses.postgres)
  await client.connect()
  await client.query(`CREATE DATABASE ${spare}_${process.pid} TEMPLATE template0`)
  return async () => {
    await client.query(`DROP DATABASE ${spare}_${process.pid} WITH (FORCE)`)
    await client.end()
  }
})

check('The command line', ({ output }) => {
  assert.match(output, /"event":"playing"[\s\S]*"event":"listening"[\s\S]*"event":"listening"/)
  assert.match(output, /did \.\/deploy\.sh[\s\S]*added job [\s\S]*did \.\/report\.sh/)
})
check('signalbox demo', ({ output }) => assert.equal(output.match(/"faultCount":0/g)?.length, 2))
check('signalbox doctor', () => {
  const strict = spawnSync(process.execPath, [main, 'doctor', '--strict'], { encoding: 'utf8' })
  assert.ok(strict.status === 1 && /warning/.test(strict.stdout), strict.stdout + strict.stderr)
})
check('signalbox schedules', ({ output }) => assert.match(output, /report/))
check('signalbox token', ({ output }) => assert.match(output, /^sbx_/m))
check('signalbox lock', ({ output }) => assert.equal(output, 'did ./deploy.sh\ndumped\n'))
// The report was done in the page's first block already.
check('signalbox once', ({ output }) => assert.match(output, /did \.\/import/))
check('signalbox add', ({ output }) => assert.equal(output.match(/added job/g)?.length, 3))
check('signalbox locks, signalbox nodes', ({ output }) => assert.match(output, /gpu-1/))
check('signalbox jobs', ({ output }) => assert.match(output, /done/))
