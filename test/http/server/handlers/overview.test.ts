import assert from 'node:assert/strict'
import { test, vi } from 'vitest'
import { createClient } from '../../../../src/http/client/index.ts'
import { MemoryJobs } from '../../../../src/storage/memory/jobs.ts'
import { serving } from '../stage.ts'

const secret = 'a-bootstrap-secret-of-more-than-32-characters'

test('whoever asks who they are learns their scope, their namespace and what they speak to', async () => {
  await using stage = await serving({ bootstrap: [secret] })
  using admin = createClient(stage.url, { token: secret })
  const token = await admin.tokens.create({ name: 'eyes', scope: 'read', namespace: 'eu' })
  using eyes = createClient(stage.url, { token: token.secret })
  const me = await eyes.overview.me()
  assert.deepEqual(
    { ...me, server: { ...me.server, version: '' } },
    {
      ...{ id: token.id, name: 'eyes', scope: 'read', namespace: 'eu', everyNamespace: false },
      namespaces: ['eu'],
      server: { version: '', engine: 'memory', warnings: me.server.warnings },
    },
  )
  const { namespaces, everyNamespace, scope } = await admin.overview.me()
  assert.deepEqual(
    { namespaces, everyNamespace, scope },
    { namespaces: ['default'], everyNamespace: true, scope: 'admin' },
  )
  assert.equal((await stage.ask('GET', '/v1/me')).status, 401)
})

test('the overview tells of dead jobs, of paused queues that have work, and of nothing when all is well', async () => {
  await using stage = await serving()
  using client = createClient(stage.url)
  assert.deepEqual((await client.overview.get()).problems, [])
  await client.jobs.add('mail', {}, { queue: 'mail', maxAttempts: 1 })
  const [job] = await client.jobs.claim({ queues: ['mail'] })
  await client.jobs.nack(job!, { error: 'away' })
  await client.jobs.add('render', {}, { queue: 'images' })
  await client.jobs.pause('images')
  await client.jobs.pause('idle')
  const until = performance.now() + 15_000
  let overview = await client.overview.get()
  // The counts of queues are shared for a second.
  while (overview.problems.length < 2 && performance.now() < until) overview = await client.overview.get()
  assert.deepEqual(
    overview.problems.map(({ kind, subject, count }) => ({ kind, subject, count })),
    [
      { kind: 'dead_jobs', subject: 'mail', count: 1 },
      { kind: 'queue_paused', subject: 'images', count: 1 },
    ],
  )
  assert.equal(overview.readiness.status, 'ready')
  assert.ok(overview.queues.every(({ queue }) => !queue.startsWith('signalbox.')))
})

test('the overview tells of tasks that wait while no node is there', async () => {
  await using stage = await serving()
  using client = createClient(stage.url)
  await client.dispatch.submit({ service: 'asr', payload: {} })
  const until = performance.now() + 15_000
  let kinds: readonly string[] = []
  while (!kinds.includes('no_nodes') && performance.now() < until)
    kinds = (await client.overview.get()).problems.map(({ kind }) => kind)
  assert.deepEqual(kinds, ['no_nodes'])
})

test('the history has what passed through this server, in the namespace that asks', async () => {
  await using stage = await serving()
  using client = createClient(stage.url)
  using other = createClient(stage.url, { namespace: 'eu' })
  await client.jobs.addMany([{ kind: 'a' }, { kind: 'b' }, { kind: 'c' }])
  const [job] = await client.jobs.claim()
  await client.jobs.ack(job!)
  const { history } = await client.overview.get()
  const sum = (what: 'added' | 'completed') =>
    history.samples.reduce((total, sample) => total + sample[what], 0)
  assert.deepEqual([sum('added'), sum('completed')], [3, 1])
  assert.ok(history.samples.some(({ waitP50Ms, runP50Ms }) => waitP50Ms !== null && runP50Ms !== null))
  const elsewhere = (await other.overview.get()).history.samples
  assert.ok(elsewhere.every(({ added, completed }) => added + completed === 0))
  const later = await client.overview.get({ since: Date.now() + 60_000 })
  assert.deepEqual(later.history.samples, [])
})

test('who would not wait for a count learns that it is under way, and everybody else waits for it', async () => {
  const { promise: counted, resolve: count } = Promise.withResolvers<void>()
  const { stats } = MemoryJobs.prototype
  using slow = vi.spyOn(MemoryJobs.prototype, 'stats').mockImplementation(async function (this: MemoryJobs) {
    await counted
    return stats.call(this)
  })
  await using stage = await serving()
  using client = createClient(stage.url)
  await client.jobs.add('mail', {}, { queue: 'mail' })
  const early = await client.overview.get({ waitMs: 5 })
  assert.deepEqual([early.counting, early.queues, early.readiness.status], [true, [], 'ready'])
  assert.deepEqual(await client.jobs.queues({ waitMs: 5 }), { items: [], cursor: null, counting: true })
  const patient = Promise.all([client.overview.get(), client.jobs.stats()])
  count()
  const [overview, queues] = await patient
  assert.deepEqual([overview.counting, queues[0]?.ready], [undefined, 1])
  assert.ok(slow.mock.calls.length > 0)
})
