import assert from 'node:assert/strict'
import { test, vi } from 'vitest'
import { createSeriesRecorder } from '../../../../src/fleet/index.ts'
import { createClient } from '../../../../src/http/client/index.ts'
import { MemoryJobs } from '../../../../src/storage/memory/jobs.ts'
import { serving } from '../stage.ts'

const secret = 'a-bootstrap-secret-of-more-than-32-characters'

test('a caller can ask for its scope, its namespace and its server', async () => {
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

test('the overview shows dead jobs and paused queues with work, and nothing when all is well', async () => {
  await using stage = await serving()
  using client = createClient(stage.url)
  assert.deepEqual((await client.overview.get()).problems, [])
  await client.jobs.add('mail', {}, { queue: 'mail', maxAttempts: 1 })
  const [job] = await client.jobs.claim({ queues: ['mail'] })
  await client.jobs.nack(job!, { error: 'away' })
  await client.jobs.add('render', {}, { queue: 'images' })
  await client.jobs.pause('images')
  await client.jobs.pause('idle')
  // The counts of queues are shared for a second.
  const overview = await until(
    () => client.overview.get(),
    ({ problems }) => problems.length >= 2,
  )
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

test('the overview shows tasks that wait while no node is connected', async () => {
  await using stage = await serving()
  using client = createClient(stage.url)
  await client.dispatch.submit({ service: 'asr', payload: {} })
  const kinds = await until(
    async () => (await client.overview.get()).problems.map(({ kind }) => kind),
    (kinds) => kinds.includes('no_nodes'),
  )
  assert.deepEqual(kinds, ['no_nodes'])
})

test.concurrent('jobs that were due before any worker lived waited for a worker, later ones in their queue', async () => {
  await using stage = await serving()
  const { box } = stage
  await box.jobs.add('early', {}, { queue: 'mail' })
  await using worker = box.jobs.worker({ queues: ['mail'], handlers: { early: () => 1, late: () => 1 } })
  await worker.start()
  await box.jobs.add('late', {}, { queue: 'mail' })
  const { items } = await until(
    () => box.metrics.series({ by: 'kind' }),
    ({ items }) => items.reduce((sum, { total }) => sum + total.completed, 0) === 2,
  )
  assert.deepEqual(items.map(({ kind, total }) => [kind, Object.keys(total.waitMsBy)]).toSorted(), [
    ['early', ['noWorker']],
    ['late', ['queue']],
  ])
})

test.concurrent("the history and the series have the work of all processes, in the caller's namespace", async () => {
  await using stage = await serving()
  using client = createClient(stage.url)
  using other = createClient(stage.url, { namespace: 'eu' })
  await client.jobs.addMany([{ kind: 'a' }, { kind: 'b' }, { kind: 'c' }])
  const [job] = await client.jobs.claim()
  await client.jobs.ack(job!)
  // Another process, which this server knows by the store alone.
  const { series: store } = stage.box.backend
  const recorder = createSeriesRecorder({ store })
  recorder.ended({ queue: 'mail', kind: 'a' }, 'completed', 40)
  await recorder.flush()
  const { history } = await until(
    () => client.overview.get(),
    ({ history }) => history.samples.reduce((sum, { added, completed }) => sum + added + completed, 0) === 5,
  )
  assert.ok(history.samples.some(({ waitP50Ms, runP50Ms }) => waitP50Ms !== null && runP50Ms !== null))
  const series = await client.metrics.series()
  const { total, points } = series.items[0]!
  assert.deepEqual([total.added, total.started, total.completed, total.failed], [3, 1, 2, 0])
  assert.equal(total.run!.count, 2)
  assert.deepEqual(Object.keys(total.waitMsBy), ['queue'])
  assert.ok(points.every(({ at }) => at % series.stepMs === 0 && at >= series.from && at < series.to))
  const kinds = await client.metrics.series({ by: 'kind', step: '10m' })
  assert.deepEqual(kinds.items.map(({ kind, total }) => [kind, total.added]).toSorted(), [
    ['a', 1],
    ['b', 1],
    ['c', 1],
  ])
  const mail = await client.metrics.series({ queue: 'mail', step: 60_000 })
  assert.equal(mail.items[0]!.total.completed, 1)
  const elsewhere = await other.metrics.series()
  assert.deepEqual(elsewhere.items[0]!.points, [])
  const later = await client.overview.get({ since: Date.now() + 60_000 })
  assert.deepEqual(later.history.samples, [])
})

test('a series that cannot be drawn is refused', async () => {
  await using stage = await serving()
  using client = createClient(stage.url)
  for (const query of [
    { from: 5, to: 5 },
    { step: 90_000 },
    { step: '30s' as const },
    { from: 0, step: '1m' as const },
  ])
    await assert.rejects(client.metrics.series(query), { code: 'invalid_argument' }, JSON.stringify(query))
})

/** The first answer that is so. Some wait long: processes write their counts every ten seconds. */
async function until<Answer>(ask: () => Promise<Answer>, isSo: (answer: Answer) => boolean): Promise<Answer> {
  const end = performance.now() + 60_000
  for (;;) {
    const answer = await ask()
    if (isSo(answer)) return answer
    assert.ok(performance.now() < end, JSON.stringify(answer))
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}

test('a caller that does not wait for a count learns that it runs, and other callers wait', async () => {
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
