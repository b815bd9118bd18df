import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { open } from 'signalbox'
import { createClient } from 'signalbox/client'
import { test } from 'vitest'
import { createTokens, type Scope } from '../../../../src/access/index.ts'
import { type Stage, serving } from '../stage.ts'

/** Workers over HTTP: what operators see and ask, and what boxes report. */

async function until(what: string, isSo: () => boolean | Promise<boolean>): Promise<void> {
  const deadline = performance.now() + 20_000
  while (!(await isSo())) {
    assert.ok(performance.now() < deadline, what)
    await sleep(20)
  }
}

async function startWorker(stage: Stage) {
  const worker = stage.box.jobs.worker({ workerId: 'ada', queues: ['mail'], handlers: { mail: () => 1 } })
  await worker.start()
  await until('it is listed', async () => (await stage.box.jobs.findWorker('ada')) !== undefined)
  return worker
}

test('a worker of the store is listed and found over HTTP, and by the client', async () => {
  await using stage = await serving()
  await startWorker(stage)
  const { status, body } = await stage.ask('GET', '/v1/workers?queue=mail&state=running')
  assert.equal(status, 200)
  assert.deepEqual([body.items.length, body.items[0].id, body.cursor], [1, 'ada', null])
  assert.ok(body.at >= body.items[0].seenAt)
  assert.deepEqual((await stage.ask('GET', '/v1/workers?queue=post')).body.items, [])
  const found = await stage.ask('GET', '/v1/workers/ada')
  assert.deepEqual([found.status, found.body.kinds, found.body.schemas], [200, ['mail'], {}])
  assert.equal((await stage.ask('GET', '/v1/workers/eve')).body.code, 'not_found')
  assert.equal((await stage.ask('GET', '/v1/workers?state=odd')).body.code, 'invalid_argument')

  const { jobs } = createClient(stage.url)
  assert.deepEqual(
    (await jobs.workers()).items.map(({ id }) => id),
    ['ada'],
  )
  assert.equal((await jobs.findWorker('ada'))?.id, 'ada')
  assert.equal(await jobs.findWorker('eve'), undefined)
})

test('operators quiet, resume and stop a worker, and the audit records it', async () => {
  await using stage = await serving()
  const worker = await startWorker(stage)
  assert.equal((await stage.ask('POST', '/v1/workers/ada/quiet')).body.wanted, 'quiet')
  await until('it is quiet', () => worker.mode === 'quiet')
  assert.equal((await stage.ask('POST', '/v1/workers/ada/resume')).body.wanted, 'run')
  await until('it claims again', () => worker.mode === 'running')
  assert.equal((await stage.ask('POST', '/v1/workers/ada/stop', { body: { graceMs: '5s' } })).status, 200)
  assert.equal((await stage.ask('POST', '/v1/workers/ada/stop')).status, 200, 'asked again')
  assert.equal((await stage.ask('POST', '/v1/workers/ada/resume')).body.code, 'conflict')
  await until('it stopped', () => worker.mode === 'stopped')
  assert.equal((await stage.ask('POST', '/v1/workers/ada/quiet')).body.code, 'not_found')
  const { items } = (await stage.ask('GET', '/v1/audit')).body
  assert.deepEqual(
    items.map(({ action, outcome, target }: Record<string, unknown>) => [action, outcome, target]).reverse(),
    [
      ['worker.quiet', 'done', { worker: 'ada' }],
      ['worker.resume', 'done', { worker: 'ada' }],
      ['worker.stop', 'done', { worker: 'ada', graceMs: '5s' }],
      ['worker.stop', 'done', { worker: 'ada' }],
      ['worker.resume', 'refused', { worker: 'ada' }],
      ['worker.quiet', 'refused', { worker: 'ada' }],
    ],
  )
})

test('reading workers needs the scope read, reporting needs work, and requests to a worker need admin', async () => {
  await using stage = await serving()
  await startWorker(stage)
  const tokens = createTokens({ store: stage.box.backend.tokens })
  const ask = async (scope: Scope, method: string, path: string, body?: unknown) => {
    const { secret } = await tokens.create({ name: scope, scope, namespace: 'default' })
    return (await stage.ask(method, path, { body, headers: { authorization: `Bearer ${secret}` } })).status
  }
  assert.equal(await ask('read', 'GET', '/v1/workers'), 200)
  assert.equal(await ask('read', 'GET', '/v1/workers/ada'), 200)
  assert.equal(await ask('read', 'POST', '/v1/workers/report', {}), 403)
  assert.equal(await ask('work', 'POST', '/v1/workers/report', {}), 200)
  for (const act of ['quiet', 'resume', 'stop']) {
    assert.equal(await ask('work', 'POST', `/v1/workers/ada/${act}`), 403)
    assert.equal(await ask('admin', 'POST', `/v1/workers/ada/${act}`), 200)
  }
})

test('a worker in another language joins, renews, learns requests to it, and leaves', async () => {
  await using stage = await serving()
  const report = async (body: unknown) => {
    const reply = await stage.ask('POST', '/v1/workers/report', { body })
    assert.equal(reply.status, 200, JSON.stringify(reply.body))
    return reply.body
  }
  const ref = { id: 'py-1', session: 'k2f9' }
  const state = { mode: 'running', running: [{ id: 'j1', kind: 'mail', ms: 1_500 }], runningCount: 1 }
  const facts = { workerId: 'py-1', host: 'mars', pid: 7, boot: 'b1', queues: ['mail'], kinds: ['mail'] }
  const more = { schemas: { mail: { type: 'object' }, wide: { text: 'x'.repeat(20_000) } }, concurrency: 1 }
  const join = { ...ref, ...state, ...facts, ...more, release: null, version: null, ageMs: 0 }
  assert.deepEqual(await report({ join: [join] }), { joined: [true], renewed: [], asked: [] })
  const found = (await stage.ask('GET', '/v1/workers/py-1')).body
  assert.deepEqual([found.via, found.running[0].id, Object.keys(found.schemas)], ['remote', 'j1', ['mail']])
  await stage.ask('POST', '/v1/workers/py-1/stop')
  assert.deepEqual(await report({ renew: [{ ...ref, ...state }], ask: [{ ...ref, session: 'other' }] }), {
    joined: [],
    renewed: [{ status: 'here', wanted: 'stop', graceMs: 10_000 }],
    asked: [{ status: 'taken' }],
  })
  await report({ leave: [ref] })
  assert.deepEqual((await stage.ask('GET', '/v1/workers')).body.items, [])
})

test.concurrent('a program that only claims is listed by its workerId, and gets no jobs while it is quiet', async () => {
  await using stage = await serving()
  const claim = async (more: object = {}) => {
    const body = { workerId: 'curl-1', queues: ['mail'], kinds: ['welcome'], ...more }
    return (await stage.ask('POST', '/v1/jobs/claim', { body })).body
  }
  await stage.box.jobs.addMany([1, 2, 3].map(() => ({ kind: 'welcome', queue: 'mail' })))
  const { items } = await claim()
  const worker = async () => (await stage.ask('GET', '/v1/workers/curl-1')).body
  await until('it is listed', async () => (await worker()).runningCount === 1)
  const { via, state, queues, kinds, running, pid } = await worker()
  assert.deepEqual([via, state, queues, kinds, pid], ['http', 'running', ['mail'], ['welcome'], null])
  assert.equal(running[0].id, items[0].id)
  await claim({ queues: ['post'], kinds: undefined })
  await until('it is listed with all that it takes', async () => (await worker()).queues.length === 2)
  assert.equal((await worker()).kinds, null)

  await stage.ask('POST', '/v1/workers/curl-1/quiet')
  // It may have got a job before the server knew.
  await until('it gets nothing', async () => (await claim()).wanted === 'quiet')
  assert.deepEqual((await claim()).items, [])
  assert.deepEqual((await claim({ waitMs: 50 })).items, [])
  assert.equal((await claim({ workerId: 'curl-2' })).wanted, undefined)
  await until('its row says so', async () => (await worker()).state === 'quiet')
  await stage.ask('POST', '/v1/workers/curl-1/resume')
  await stage.box.jobs.add('welcome', {}, { queue: 'mail' })
  await until('it gets jobs again', async () => (await claim()).items.length === 1)
})

test.concurrent('a worker that registers itself is one member, also where it claims over HTTP', async () => {
  await using stage = await serving()
  await using box = await open(stage.url as 'http://x')
  // The worker stops before the server lists its claims.
  const brief = box.jobs.worker({ workerId: 'brief', pollMs: 100, handlers: { mail: () => 1 } })
  await brief.start()
  await box.jobs.wait((await box.jobs.add('mail')).id)
  await brief.stop()
  const worker = box.jobs.worker({ workerId: 'ada', pollMs: 100, handlers: { mail: () => 1 } })
  await worker.start()
  await until('it is listed', async () => (await stage.box.jobs.workers()).items.length === 1)
  // Longer than the server takes to list a claiming worker.
  await sleep(2_500)
  const { items } = await stage.box.jobs.workers()
  assert.deepEqual(
    items.map(({ id, via }) => [id, via]),
    [['ada', 'remote']],
  )
  await worker.stop()
  await sleep(2_000)
  assert.deepEqual((await stage.box.jobs.workers()).items, [])
})
