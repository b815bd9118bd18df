import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { open, type RemoteUrl } from 'signalbox'
import { createClient, listQueues } from 'signalbox/client'
import { test } from 'vitest'
import { createWorkplace } from '../../cli/command.ts'
import { within } from '../../support/deadline.ts'
import { fakeServer, json, problem } from '../client/fake-server.ts'
import { serving } from '../server/stage.ts'

const noQueues = { items: [], cursor: null }
const nowhere = 'http://127.0.0.1:9'

test('500 adds create exactly 500 jobs although one of two servers is killed during them', async () => {
  using workplace = createWorkplace()
  await using one = await workplace.serve(['--database=sqlite:shared.db'])
  await using two = await workplace.serve(['--database=sqlite:shared.db'])
  using client = createClient([one.url, two.url], { timeoutMs: '30s' })
  const ids = new Set<string>()
  let killed: string | undefined
  const add = async () => {
    const { id } = await client.jobs.add('mail')
    ids.add(id)
    if (ids.size < 250 || killed !== undefined) return
    killed = client.url
    for (const server of [one, two]) if (server.url === killed) server.kill('SIGKILL')
  }
  await Promise.all(
    Array.from({ length: 20 }, async () => {
      for (let nth = 0; nth < 25; nth++) await add()
    }),
  )
  assert.equal(ids.size, 500)
  assert.notEqual(client.url, killed)
  await using remote = await open([one.url as RemoteUrl, two.url as RemoteUrl])
  const stats = await remote.jobs.stats()
  assert.equal(stats.find(({ queue }) => queue === 'default')?.ready, 500)
}, 90_000)

test('an add whose answer is lost after the commit is repeated, and creates one job', async () => {
  await using stage = await serving()
  let lost = 0
  // Passes each request on, and cuts the connection instead of the first answer to each key.
  const keys = new Set<string>()
  await using between = await fakeServer(async (seen, response) => {
    const key = seen.headers['idempotency-key'] as string | undefined
    const answer = await fetch(stage.url + seen.path, {
      method: seen.method,
      headers: {
        ...(key === undefined ? {} : { 'idempotency-key': key }),
        ...(seen.body === '' ? {} : { 'content-type': 'application/json' }),
      },
      body: seen.body === '' ? null : seen.body,
    })
    const text = await answer.text()
    if (key !== undefined && !keys.has(key)) {
      keys.add(key)
      lost++
      response.destroy()
      return
    }
    json(response, JSON.parse(text), answer.status)
  })
  await using remote = await open(between.url as RemoteUrl)
  const { id } = await remote.jobs.add('mail')
  const answer = await remote.once.run('charge', () => 'charged')
  assert.deepEqual(answer, { ran: true, result: 'charged' })
  assert.deepEqual(await remote.once.seen({ subject: ['s'], state: 1 }), { seen: false })
  await remote.monitor.silence({ match: { venueId: { prefix: 'v' } }, forMs: '1h' })
  assert.equal((await remote.monitor.silences()).length, 1)
  assert.deepEqual(
    (await stage.box.jobs.list()).items.map((job) => job.id),
    [id],
  )
  assert.ok(lost >= 4, `${lost} lost`)
})

test('the client moves to the next server when one is unreachable, drains or has lost its store', async () => {
  await using working = await fakeServer((_, response) => json(response, noQueues))
  await using draining = await fakeServer((_, response) =>
    problem(response, 503, 'draining', { headers: { 'retry-after': '30' } }),
  )
  await using storeless = await fakeServer((_, response) => problem(response, 503, 'store_unavailable'))
  for (const bad of [nowhere, draining.url, storeless.url]) {
    for (let nth = 0; nth < 6; nth++) {
      using client = createClient([bad, working.url], { timeoutMs: 5_000 })
      const begunAt = performance.now()
      await client.call(listQueues)
      assert.equal(client.url, working.url)
      assert.ok(performance.now() - begunAt < 1_000)
      // It keeps to the one that works.
      await client.call(listQueues)
      assert.equal(client.url, working.url)
    }
  }
})

test('when no server answers, the error names all of them', async () => {
  using client = createClient([nowhere, 'http://127.0.0.1:10'], { timeoutMs: 300 })
  await assert.rejects(client.call(listQueues), (error: { message: string }) => {
    assert.match(error.message, /Tried \d+ times in \d\.\d s at .*127\.0\.0\.1:9\b/)
    assert.match(error.message, /Tried .*127\.0\.0\.1:10\b/)
    return true
  })
})

test('clients of the same servers spread over them', async () => {
  await using one = await fakeServer((_, response) => json(response, noQueues))
  await using two = await fakeServer((_, response) => json(response, noQueues))
  for (let nth = 0; nth < 40; nth++) {
    using client = createClient([one.url, two.url])
    await client.call(listQueues)
  }
  assert.ok(one.seen.length > 4 && two.seen.length > 4, `${one.seen.length} and ${two.seen.length}`)
})

test('a stream continues at the next server when its own is cut', async () => {
  await using one = await serving()
  await using two = await serving()
  await using remote = await open([one.url as RemoteUrl, two.url as RemoteUrl])
  const done: string[] = []
  // Without the stream the worker would look again after an hour.
  const worker = remote.jobs.worker({
    pollMs: 3_600_000,
    handlers: { mail: (job) => void done.push(job.payload) },
  })
  await worker.start()
  await sleep(300)
  await remote.jobs.add('mail', 'before')
  await within(
    10_000,
    'the first job',
    until(() => done.length === 1),
  )
  // The two have separate stores here, so that the box's place shows.
  const isAtOne = (await one.box.jobs.list()).items.length === 1
  const [left, kept] = isAtOne ? [one, two] : [two, one]
  await left[Symbol.asyncDispose]()
  await kept.box.jobs.add('mail', 'after')
  await within(
    10_000,
    'the second job',
    until(() => done.length === 2),
  )
  assert.deepEqual(done, ['before', 'after'])
}, 30_000)

async function until(isSo: () => boolean): Promise<void> {
  while (!isSo()) await sleep(20)
}

test('a list of servers has at least one server, and nothing else', async () => {
  const wrong: readonly (readonly [unknown, RegExp])[] = [
    [[], /empty list/],
    [['http://127.0.0.1:1', 'sqlite:x.db'], /item 2 is not a server.*A database is one URL/],
    [['postgres://a/b'], /item 1 is not a server/],
    [[undefined], /item 1 is not a server/],
  ]
  for (const [urls, message] of wrong)
    await assert.rejects(open(urls as never), { code: 'invalid_argument', message })
  const many = Array.from({ length: 257 }, (_, nth) => `http://127.0.0.1:${nth + 1}`)
  assert.throws(() => createClient(many), { code: 'invalid_argument', message: /1 to 256/ })
})
