import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createSeriesRecorder } from '../../../../src/fleet/index.ts'
import { createClient } from '../../../../src/http/client/index.ts'
import { serving } from '../stage.ts'

test('the API and the metrics show how many workers a queue calls for, and why', async () => {
  await using stage = await serving()
  using client = createClient(stage.url)
  const recorder = createSeriesRecorder({ store: stage.box.backend.series })
  for (let nth = 0; nth < 30; nth++) recorder.ended({ queue: 'mail', kind: 'welcome' }, 'completed', 20_000)
  await recorder.flush()
  await client.jobs.addMany(Array.from({ length: 90 }, () => ({ kind: 'welcome', queue: 'mail' })))
  const scaling = await until(
    () => client.metrics.scaling({ queue: 'mail', slots: 4 }),
    ({ waiting }) => waiting === 90,
  )
  // 90 jobs of 20 s each in a minute.
  assert.deepEqual(
    [scaling.slots, scaling.wanted, scaling.live, scaling.boundBy, scaling.service],
    [30, 8, 0, null, null],
  )
  assert.match(scaling.reason, /^90 wait, the oldest for .* 30 slots are 8 workers of 4\.$/)
  assert.ok(scaling.runMs! > 15_000 && scaling.servicePerSecond > 0)
  const soon = await client.metrics.scaling({ queue: 'mail', slots: 4, drain: '10m' })
  assert.equal(soon.slots, 3)
  await client.jobs.setLimits('mail', { concurrency: 6 })
  const limited = await until(
    () => client.metrics.scaling({ queue: 'mail', slots: 4 }),
    ({ boundBy }) => boundBy !== null,
  )
  assert.deepEqual([limited.boundBy, limited.slots, limited.wanted], ['concurrency', 6, 2])
  await using worker = stage.box.jobs.worker({
    queues: ['mail'],
    concurrency: 3,
    handlers: { other: () => 1 },
  })
  await worker.start()
  const lived = await until(
    () => stage.box.metrics.scaling({ queue: 'mail' }),
    ({ live }) => live === 1,
  )
  assert.deepEqual([lived.slotsPerMember, lived.wanted], [3, 2])
  const text = await until(
    async () => (await fetch(`${stage.url}/metrics`)).text(),
    (metrics) => metrics.includes('signalbox_scaling_live_workers{namespace="default",queue="mail"} 1\n'),
  )
  assert.match(text, /^signalbox_scaling_wanted_workers\{namespace="default",queue="mail"\} 2$/m)
})

test('a service shows how many nodes its tasks call for', async () => {
  await using stage = await serving()
  using client = createClient(stage.url)
  assert.equal((await client.metrics.scaling({ service: 'asr' })).wanted, 0)
  for (let nth = 0; nth < 3; nth++) await client.dispatch.submit({ service: 'asr', payload: {} })
  const scaling = await until(
    () => client.metrics.scaling({ service: 'asr', slots: 2 }),
    ({ waiting }) => waiting === 3,
  )
  assert.deepEqual([scaling.wanted, scaling.live, scaling.queue], [2, 0, null])
  assert.match(scaling.reason, /3 slots are 2 nodes of 2\.$/)
})

test('a scaling request names a queue or a service', async () => {
  await using stage = await serving()
  using client = createClient(stage.url)
  for (const query of [{}, { queue: 'a', service: 'b' }, { queue: 'a', drain: '1ms' as const }])
    await assert.rejects(client.metrics.scaling(query), { code: 'invalid_argument' })
  await assert.rejects(stage.box.metrics.scaling({ service: 'asr' }), { code: 'invalid_argument' })
})

async function until<Answer>(ask: () => Promise<Answer>, isSo: (answer: Answer) => boolean): Promise<Answer> {
  const deadline = performance.now() + 30_000
  for (;;) {
    const answer = await ask()
    if (isSo(answer)) return answer
    assert.ok(performance.now() < deadline, JSON.stringify(answer))
    await new Promise((resolve) => setTimeout(resolve, 100))
  }
}
