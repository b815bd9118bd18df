import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { open } from 'signalbox'
import { connectNode } from 'signalbox/client'
import { addresses } from '../../addresses.ts'
import { around, check, command, replace } from '../../prelude.ts'

for (const script of ['deploy.sh', 'import']) {
  writeFileSync(script, `#!/bin/sh\necho "did $0"\n`, { mode: 0o755 })
}
command('pg_dump', 'echo dumped')

// The id is that of a job that has ended, so that it can be retried, or of a task.
let job: string
let task: string
let present: string
replace('01k9z3v8qe0m4t9wq3rb5c7xkd', () => (present === 'signalbox tasks' ? task : job))

around(async ({ key }) => {
  present = key
  await using box = await open('sqlite:signalbox.db')
  job = (await box.jobs.add('done', null, { queue: 'ended' })).id
  const [claimed] = await box.jobs.claim({ queues: ['ended'] })
  if (claimed) await box.jobs.ack(claimed)
  if (key === 'signalbox tasks') ({ taskId: task } = await box.dispatch.submit({ service: 'nmt' }))
  if (key !== 'signalbox locks, signalbox nodes') return
  await box.locks.acquire({ operation: 'pull', resource: 'nginx', node: 'machine-1', ttlMs: '1h' })
  const services = [{ name: 'nmt', slots: 1 }]
  const node = await connectNode(addresses.server!, { nodeId: 'gpu-1', services, onTask: () => null })
  return () => node.close()
})

check('The command line: work with jobs, locks and nodes', ({ output }) =>
  assert.match(output, /added job [\s\S]*mail\.welcome[\s\S]*did \.\/deploy\.sh/),
)
check('signalbox add', ({ output }) => assert.equal(output.match(/added job/g)?.length, 2))
check('signalbox jobs', ({ output }) => assert.match(output, /done/))
check('signalbox schedules', ({ output }) => assert.match(output, /report/))
check('signalbox lock', ({ output }) => assert.equal(output, 'dumped\n'))
check('signalbox once', ({ output }) => assert.match(output, /did \.\/import/))
check('signalbox locks, signalbox nodes', ({ output }) => assert.match(output, /gpu-1/))
