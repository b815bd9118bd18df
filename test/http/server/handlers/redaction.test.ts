import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { createAesSealer, open, type RemoteUrl } from 'signalbox'
import { test } from 'vitest'
import { type Stage, serving } from '../stage.ts'

/** What operators named is hidden wherever a server shows jobs, and cannot be found by asking either. */

const redact = ['password', 'payload.card.*', 'error.message']
const payload = {
  user: 'ada',
  password: 'sesame',
  card: { number: 'sesame' },
  list: [{ Password: 'sesame' }],
}
const hidden = {
  user: 'ada',
  password: '[redacted]',
  card: { number: '[redacted]' },
  list: [{ Password: '[redacted]' }],
}

/** A job that ended well, one that died, and one that waits. */
async function withJobs(stage: Stage): Promise<{ done: string; dead: string; waits: string }> {
  const { jobs } = stage.box
  const { id: done } = await jobs.add('done', payload)
  const { id: dead } = await jobs.add('dead', payload)
  for (const job of await jobs.claim({ limit: 2 })) {
    if (job.id === done) await jobs.ack(job, { result: { token: 1, password: 'sesame' } })
    else await jobs.nack(job, { error: new Error('sesame is wrong'), dead: true })
  }
  const { id: waits } = await jobs.add('waits', payload)
  return { done, dead, waits }
}

test('no route that shows jobs shows redacted values, and a claim gets all values', async () => {
  await using stage = await serving({ redact })
  const { done, dead, waits } = await withJobs(stage)
  const schedule = { name: 'nightly', everyMs: '1h', job: { kind: 'x', payload } }
  const replies = [
    await stage.ask('GET', `/v1/jobs/${done}`),
    await stage.ask('GET', `/v1/jobs/${dead}`),
    await stage.ask('GET', '/v1/jobs'),
    await stage.ask('GET', '/v1/jobs?state=dead'),
    await stage.ask('GET', '/v1/jobs?search=ada'),
    await stage.ask('POST', '/v1/schedules', { body: schedule }),
    await stage.ask('GET', '/v1/schedules'),
    await stage.ask('GET', '/v1/schedules/nightly'),
    await stage.ask('POST', '/v1/schedules/nightly/pause'),
    await stage.ask('POST', '/v1/schedules/nightly/resume'),
  ]
  for (const { status, body } of replies) {
    assert.equal(status, 200, JSON.stringify(body))
    assert.match(JSON.stringify(body), /"user":"ada","password":"\[redacted\]"/)
    assert.doesNotMatch(JSON.stringify(body), /sesame/)
  }
  const [first, second] = replies
  assert.deepEqual([first!.body.payload, first!.body.result], [hidden, { token: 1, password: '[redacted]' }])
  assert.equal(second!.body.error.name, 'Error')
  assert.deepEqual([second!.body.error.message, second!.body.error.stack], ['[redacted]', '[redacted]'])

  await using remote = await open(stage.url as RemoteUrl)
  assert.deepEqual((await remote.jobs.find(waits))!.payload, hidden)
  assert.deepEqual((await remote.jobs.claim())[0]!.payload, payload)
  const run = await stage.ask('POST', '/v1/schedules/nightly/run')
  assert.equal(run.status, 201)
  const { items } = (await stage.ask('POST', '/v1/jobs/claim', { body: {} })).body
  assert.deepEqual(items[0].payload, payload)
})

test('neither a search nor a bulk operation matches redacted values', async () => {
  await using stage = await serving({ redact })
  await withJobs(stage)
  const count = async (search: string) => {
    const list = await stage.ask('GET', `/v1/jobs?search=${encodeURIComponent(search)}`)
    const bulk = await stage.ask('POST', '/v1/jobs/bulk', {
      body: { action: 'cancel', search, dryRun: true },
    })
    assert.equal(bulk.body.matched, list.body.items.length, JSON.stringify(bulk.body))
    return list.body.items.length as number
  }
  assert.equal(await count('payload.user:ada'), 3)
  for (const search of ['sesame', 'payload.password:ses*', 'payload.card.number:sesame', 'error:sesame'])
    assert.equal(await count(search), 0, search)
  // Nor by its opposite: a hidden value might be just that.
  for (const search of ['-sesame', '-payload.password:other', '-payload.list.Password:x', '-error:other'])
    assert.equal(await count(`state:dead ${search}`), 0, search)
  assert.equal(await count('redacted'), 0)
  assert.equal(await count('-payload.user:ada'), 0)
  assert.equal(await count('-payload.user:bob payload.password:* -payload.password.x:1 -error:x'), 0)
  assert.equal(await count('-payload.user:bob payload.password:* -payload.unknown:*'), 3)
  assert.equal((await stage.box.jobs.list({ search: 'sesame' })).items.length, 3)
})

test('acts through a redacting server leave the stored values unchanged', async () => {
  await using stage = await serving({ redact: ['*'] })
  const { done, dead, waits } = await withJobs(stage)
  await using remote = await open(stage.url as RemoteUrl)
  assert.equal((await remote.jobs.find(dead))!.payload, '[redacted]')
  assert.deepEqual((await remote.jobs.find(dead))!.error, { message: '[redacted]' })
  await remote.jobs.retry(dead)
  await remote.jobs.retry(done)
  await remote.jobs.cancel(waits)
  for (const id of [done, dead, waits]) assert.deepEqual((await stage.box.jobs.find(id))!.payload, payload)
  const begun = await stage.ask('POST', '/v1/jobs/bulk', { body: { action: 'cancel', search: 'kind:done' } })
  const { body } = await stage.ask('GET', `/v1/operations/${begun.body.id}`)
  assert.equal(body.search, 'kind:done')
})

test('sealed values pass unchanged, for clients with the key', async () => {
  await using stage = await serving({ redact: ['payload.*'] })
  const sealer = createAesSealer({ keys: { a: randomBytes(32) }, current: 'a' })
  await using remote = await open(stage.url as RemoteUrl, { jobs: { sealer } })
  const { id } = await remote.jobs.add('mail', payload)
  assert.deepEqual((await remote.jobs.find(id))!.payload, payload)
  assert.doesNotMatch(JSON.stringify((await stage.ask('GET', '/v1/jobs')).body), /sesame/)
})

test('a redacted value cannot be written back over the value that it hides', async () => {
  await using stage = await serving({ redact })
  const job = { kind: 'x', payload: hidden }
  const refused = await stage.ask('POST', '/v1/schedules', { body: { name: 'nightly', everyMs: '1h', job } })
  assert.deepEqual([refused.status, refused.body.code], [400, 'invalid_argument'])
  assert.match(refused.body.detail, /schedule\.job\.payload holds/)
  assert.equal((await stage.ask('GET', '/v1/schedules/nightly')).status, 404)
})

test('a list of tasks redacts their errors, and a read of one task shows all', async () => {
  await using stage = await serving({ redact })
  const submitted = await stage.ask('POST', '/v1/tasks', {
    body: { service: 'none', payload: {}, deadlineMs: 100 },
  })
  const { taskId } = submitted.body
  const url = `/v1/tasks/${taskId}`
  for (let tries = 0; (await stage.ask('GET', url)).body.status !== 'failed'; tries++) {
    assert.ok(tries < 200, 'it did not end')
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  const { message } = (await stage.ask('GET', url)).body.error
  assert.notEqual(message, '[redacted]')
  const { items } = (await stage.ask('GET', '/v1/tasks')).body
  assert.equal(items.find((task: { taskId: string }) => task.taskId === taskId).error.message, '[redacted]')
})
