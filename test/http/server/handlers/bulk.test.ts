import assert from 'node:assert/strict'
import { join } from 'node:path'
import { open } from 'signalbox'
import { createClient } from 'signalbox/client'
import { test } from 'vitest'
import { createId } from '../../../../src/core/ids.ts'
import type { NewJob } from '../../../../src/jobs/index.ts'
import { ended } from '../../../jobs/searching.ts'
import { within } from '../../../support/deadline.ts'
import { serving } from '../stage.ts'

test("jobs are searched over HTTP, and a search that does not parse is answered with the error's position", async () => {
  await using stage = await serving()
  const { jobs } = stage.box
  const [, ann] = await jobs.addMany(
    ['Bob', 'Ann Lee', 'Eve'].map((name) => ({ kind: 'mail', payload: { name } })),
  )
  const search = encodeURIComponent('kind:mail payload.name:"Ann Lee"')
  const { status, body } = await stage.ask('GET', `/v1/jobs?search=${search}&limit=10`)
  assert.equal(status, 200)
  assert.deepEqual(
    body.items.map(({ id }: { id: string }) => id),
    [ann!.id],
  )
  assert.deepEqual([body.cursor, body.scanned, body.stopped], [null, 3, null])
  const wrong = await stage.ask('GET', '/v1/jobs?search=kind:mail+colour:red')
  assert.deepEqual([wrong.status, wrong.body.code], [400, 'invalid_argument'])
  assert.match(wrong.body.detail, /at column 11 it needs a field/)
  assert.deepEqual([wrong.body.details.option, wrong.body.details.column], ['list.search', 11])
})

test('a refusal over HTTP has the position of the mistake in a field for programs', async () => {
  await using stage = await serving()
  const { jobs } = createClient(stage.url)
  const refused = (asking: Promise<unknown>) =>
    asking.then(
      () => assert.fail('it was taken'),
      ({ code, details }) => (code === 'invalid_argument' ? details : code),
    )
  const found = await refused(jobs.list({ search: 'state:ready attempt>=x' }))
  assert.deepEqual(found, { option: 'list.search', column: 22, expected: 'a whole number' })
  const waits = { kind: 'b', after: 'unknown' }
  const needs = await refused(jobs.addMany([{ kind: 'a' }, waits]))
  assert.deepEqual(needs, { option: 'addMany[1].after', jobId: 'unknown' })
  const schedule = { cron: '61 * * * *', job: { kind: 'a' } }
  const line = await refused(jobs.schedules.set('x', schedule))
  assert.deepEqual(line, { option: 'schedule.cron', field: 'minute' })
  // What does not fit the route, too; and the message says what is really wrong with it.
  const { body } = await stage.ask('POST', '/v1/jobs', { body: { kind: 'a', trace: 'zzz' } })
  assert.deepEqual([body.code, body.details], ['invalid_argument', { option: 'trace' }])
  assert.match(
    body.detail,
    /^trace must be text of 55 to 55 characters that fits \^\[0-9a-f\]\{2\}-.*, not "zzz"\.$/,
  )
  const listed = await stage.ask('POST', '/v1/jobs', { body: [{ kind: 'a' }, { kind: 'a', queu: 'b' }] })
  assert.deepEqual(listed.body.details, { option: '[1].queu' })
  const endless = await stage.ask('POST', '/v1/jobs', { body: { kind: 'a', ['x'.repeat(100_000)]: 1 } })
  assert.ok(JSON.stringify(endless.body).length < 2_000)
  // Other refusals say what they say, and no more.
  assert.equal((await stage.ask('GET', '/v1/jobs/unknown')).body.details, undefined)
})

test('a bulk operation is started, watched and audited over HTTP', async () => {
  await using stage = await serving()
  const { jobs } = stage.box
  await jobs.addMany(Array.from({ length: 30 }, (_, n) => ({ kind: 'mail', payload: n })))
  const body = { action: 'cancel', search: 'payload:1*' }
  const dry = await stage.ask('POST', '/v1/jobs/bulk', { body: { ...body, dryRun: true } })
  const states = { scheduled: 0, ready: 11, waiting: 0, running: 0, completed: 0, dead: 0, cancelled: 0 }
  const counted = { matched: 11, states, scanned: 30, stopped: null, cursor: null }
  assert.deepEqual([dry.status, dry.body], [200, counted])

  const headers = { 'idempotency-key': 'cancel-the-ones' }
  const begun = await stage.ask('POST', '/v1/jobs/bulk', { body, headers })
  assert.deepEqual([begun.status, begun.body.state], [202, 'running'])
  const again = await stage.ask('POST', '/v1/jobs/bulk', { body, headers })
  assert.equal(again.body.id, begun.body.id)
  const end = await ended(createClient(stage.url).jobs, begun.body.id)
  assert.deepEqual([end.state, end.matched, end.done, end.skipped], ['completed', 11, 11, 0])
  const { body: listed } = await stage.ask('GET', '/v1/operations')
  assert.deepEqual(listed, { items: [end], cursor: null })

  const { body: audit } = await stage.ask('GET', '/v1/audit?action=jobs.bulk')
  const entries = audit.items.map(({ actor, target }: { actor: { id: string }; target: object }) => [
    actor.id,
    target,
  ])
  const named = { operationId: end.id, ...body }
  assert.deepEqual(
    entries.find(([actor]: [string]) => actor === 'server'),
    ['server', { ...named, matched: 11, done: 11, skipped: 0 }],
  )
  // The dry run changed nothing, so it is no deed.
  assert.deepEqual(entries.at(-1), ['local', named])

  const cancelled = await stage.ask('POST', `/v1/operations/${end.id}/cancel`)
  assert.deepEqual([cancelled.status, cancelled.body.state], [200, 'completed'])
  const absent = await stage.ask('GET', '/v1/operations/01k9z3v8qe0m4t9wq3rb5c7xkd')
  assert.deepEqual([absent.status, absent.body.code], [404, 'not_found'])
})

test('a box on a server has the same bulk methods', async () => {
  await using stage = await serving()
  await using box = await open(stage.url as 'http://')
  await box.jobs.addMany(Array.from({ length: 5 }, (_, n) => ({ kind: 'mail', payload: n })))
  const page = await box.jobs.list({ search: 'payload:3' })
  assert.deepEqual([page.items.map(({ payload }) => payload), page.scanned], [[3], 5])
  const { id } = await box.jobs.bulk({ action: 'delete', search: 'kind:mail', limit: 2 })
  assert.equal((await ended(box.jobs, id)).done, 2)
  assert.equal((await box.jobs.bulkOperations())[0]?.id, id)
  assert.equal(await box.jobs.bulkOperation('nothing'), undefined)
  await assert.rejects(box.jobs.cancelBulk('nothing'), { code: 'not_found' })
  await assert.rejects(box.jobs.list({ search: 'kind:' }), { code: 'invalid_argument' })
})

test('a server works on a bulk operation in a namespace without requests', async () => {
  let url = ''
  await using stage = await serving({}, (folder) => {
    url = `sqlite:${join(folder, 'jobs.db')}`
    return url
  })
  const begin = await open(url as 'sqlite:x', { namespace: 'quiet' })
  await begin.jobs.addMany(Array.from({ length: 5 }, () => ({ kind: 'mail' })))
  // The state that a dying server leaves: begun, and without a worker.
  const { backend } = begin
  const [added] = await backend.jobs.add([
    anOperation({ action: 'delete', search: 'kind:mail', limit: null }),
  ])
  await begin.close()
  const jobs = stage.box.backend.within('quiet').jobs
  const done = async () => {
    while ((await jobs.find(added!.id))?.state !== 'completed')
      await new Promise((later) => setTimeout(later, 10))
  }
  await within(30_000, 'it is done', done())
  assert.deepEqual(JSON.parse((await jobs.find(added!.id))!.result!), { matched: 5, done: 5, skipped: 0 })
})

function anOperation(order: object): NewJob {
  return {
    ...{ id: createId(), queue: 'signalbox.bulk', kind: 'bulk', payload: JSON.stringify(order), priority: 0 },
    ...{
      uniqueKey: createId(),
      due: { delayMs: 0 },
      maxAttempts: 5,
      backoff: null,
      timeoutMs: null,
      meta: null,
    },
  }
}

test('callers cannot use the internal key by which servers find an operation', async () => {
  await using stage = await serving()
  const { jobs, backend } = stage.box
  const begun = await Promise.all([1, 2].map(() => jobs.bulk({ action: 'cancel', search: 'kind:none' })))
  const keys = await Promise.all(begun.map(async ({ id }) => (await backend.jobs.find(id))?.uniqueKey))
  assert.equal(new Set(keys).size, 2)
  assert.ok(keys.every((key) => typeof key === 'string'))
})
