/** Progress, log lines, snoozes, batches and wishes to cancel, over HTTP and in workers on another machine. */
import assert from 'node:assert/strict'
import { open } from 'signalbox'
import { test } from 'vitest'
import { within } from '../../../support/deadline.ts'
import { serving } from '../stage.ts'

async function until(what: string, isSo: () => Promise<boolean>): Promise<void> {
  const look = async () => {
    while (!(await isSo())) await new Promise((resolve) => setTimeout(resolve, 10))
  }
  await within(10_000, what, look())
}

test('a worker reports progress of its job, and snoozes it, by plain requests', async () => {
  await using stage = await serving()
  const { body: added } = await stage.ask('POST', '/v1/jobs', { body: { kind: 'work' } })
  const { body: claimed } = await stage.ask('POST', '/v1/jobs/claim', { body: {} })
  const { token } = claimed.items[0]
  const path = `/v1/jobs/${added.id}`
  const note = { token, progress: { percent: 30, note: 'reading' }, logs: [{ text: 'begun' }] }
  const noted = await stage.ask('POST', `${path}/notes`, { body: note })
  assert.deepEqual([noted.status, noted.body], [200, { id: added.id }])
  const stranger = await stage.ask('POST', `${path}/notes`, { body: { ...note, token: '1.no' } })
  assert.deepEqual([stranger.status, stranger.body.code], [409, 'lease_lost'])
  const wrong = await stage.ask('POST', `${path}/notes`, { body: { token, logs: [{ level: 'info' }] } })
  assert.deepEqual([wrong.status, wrong.body.code], [400, 'invalid_argument'])
  const { body: found } = await stage.ask('GET', path)
  assert.deepEqual(
    [found.progress.percent, found.progress.note, found.progress.attempt, found.snoozeCount],
    [30, 'reading', 1, 0],
  )
  const { body: logs } = await stage.ask('GET', `${path}/logs?limit=5`)
  assert.deepEqual(
    logs.items.map(({ text }: { text: string }) => text),
    ['begun'],
  )
  const snoozed = await stage.ask('POST', `${path}/nack`, { body: { token, snoozeMs: '5m' } })
  assert.deepEqual(snoozed.body, { id: added.id, state: 'scheduled' })
  const { body: later } = await stage.ask('GET', path)
  assert.deepEqual([later.state, later.attempt, later.snoozeCount], ['scheduled', 0, 1])
})

test('a remote worker reports progress, snoozes and takes batches like a local one', async () => {
  await using stage = await serving()
  await using remote = await open(stage.url as `http://${string}`)
  const sizes: number[] = []
  const worker = remote.jobs.worker({
    pollMs: 50,
    handlers: {
      async work(job) {
        job.progress(job.snoozeCount * 50)
        job.log(`round ${job.snoozeCount}`)
        if (job.snoozeCount < 2) await job.snooze(10)
      },
      send: {
        batch: { size: 3 },
        runBatch(jobs) {
          sizes.push(jobs.length)
          return jobs.map((job) => job.payload)
        },
      },
    },
  })
  const { id } = await remote.jobs.add('work', null, { maxAttempts: 1 })
  const sent = await remote.jobs.addMany([1, 2, 3].map((payload) => ({ kind: 'send', payload })))
  await worker.start()
  await until('all ended', async () => {
    const jobs = await Promise.all([id, ...sent.map((job) => job.id)].map((each) => remote.jobs.find(each)))
    return jobs.every((job) => job?.state === 'completed')
  })
  await worker.stop()
  const found = await remote.jobs.find(id)
  assert.deepEqual([found?.snoozeCount, found?.progress?.percent, found?.progress?.attempt], [2, 100, 1])
  const { items } = await remote.jobs.logs(id)
  assert.deepEqual(
    items.map(({ text }) => text),
    ['round 0', 'round 1', 'round 2'],
  )
  assert.deepEqual([worker.counts.snoozed, worker.counts.completed, worker.counts.failed], [2, 4, 0])
  assert.equal(
    sizes.reduce((sum, size) => sum + size),
    3,
  )
  assert.equal((await stage.box.jobs.find(sent[2]!.id))?.result, 3)
  const [job] = await remote.jobs.add('mine').then(() => remote.jobs.claim({ kinds: ['mine'] }))
  await remote.jobs.note(job!, { progress: 5, logs: [{ text: 'by hand' }] })
  assert.equal((await remote.jobs.find(job!.id))?.progress?.percent, 5)
})

test('a job shows whether its cancellation request was obeyed: cancelled, or completed anyway', async () => {
  await using stage = await serving()
  await using remote = await open(stage.url as `http://${string}`)
  const worker = remote.jobs.worker({
    handlers: {
      obeys: (_, { signal }) =>
        new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason))),
      ignores: (_, { signal }) =>
        new Promise((resolve) => signal.addEventListener('abort', () => resolve('done anyway'))),
    },
  })
  const obeyed = await remote.jobs.add('obeys')
  const ignored = await remote.jobs.add('ignores')
  await worker.start()
  for (const { id } of [obeyed, ignored]) {
    await until('it ran', async () => (await stage.box.jobs.find(id))?.state === 'running')
    const { body } = await stage.ask('POST', `/v1/jobs/${id}/cancel`)
    assert.deepEqual(body, { state: 'running', cancelRequested: true })
    await until('it ended', async () => ((await stage.box.jobs.find(id))?.finishedAt ?? null) !== null)
  }
  const ends = await Promise.all([obeyed, ignored].map(({ id }) => stage.ask('GET', `/v1/jobs/${id}`)))
  assert.deepEqual(
    ends.map(({ body }) => [body.state, body.cancelIgnored, body.result]),
    [
      ['cancelled', false, null],
      ['completed', true, 'done anyway'],
    ],
  )
  const again = await stage.ask('POST', `/v1/jobs/${obeyed.id}/cancel`)
  assert.deepEqual(again.body, { state: 'cancelled', cancelRequested: false })
})
