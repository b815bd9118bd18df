import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { test } from 'vitest'
import { RawConnection } from '../pipelining/raw-connection.ts'
import { type Stage, serving } from '../stage.ts'

/**
 * A client may end its half of a connection after its last request. The server answers every request that it has read, in
 * order, and ends the connection then. A request that waits stops waiting: a client that died looks the same, so a claim
 * takes no job for it.
 */

const post = (stage: Stage, id: string, body: unknown, path = '/v1/jobs') => {
  const text = JSON.stringify(body)
  return `POST ${path} HTTP/1.1\r\nHost: ${new URL(stage.url).host}\r\nX-Request-Id: ${id}\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`
}

/** Sends the bytes and the end of the half at once, and gives the answers. */
async function sendAndEnd(stage: Stage, bytes: string) {
  using connection = new RawConnection(Number(new URL(stage.url).port))
  connection.send(bytes)
  connection.end()
  const answers = await connection.closes()
  assert.equal(connection.error, undefined)
  return answers.map(({ status, id }) => [status, id])
}

const engines = [
  ['memory', 'memory:'],
  // The answer comes after the end of the half was read: a commit takes a turn of the loop.
  ['sqlite', (folder: string) => `sqlite:${folder}/half-close.db`],
] as const

for (const [engine, url] of engines) {
  test(`${engine}: a request that arrives together with the client’s half-close is answered`, async () => {
    await using stage = await serving({}, url)
    const bytes = post(stage, 'one', { kind: 'mail' })
    assert.deepEqual(await sendAndEnd(stage, bytes), [[201, 'one']])
    assert.equal((await stage.box.jobs.list()).items.length, 1)
  })

  test(`${engine}: pipelined requests before the half-close are answered in order`, async () => {
    await using stage = await serving({}, url)
    const bytes = ['one', 'two', 'three'].map((id) => post(stage, id, { kind: id }))
    assert.deepEqual(await sendAndEnd(stage, bytes.join('')), [
      [201, 'one'],
      [201, 'two'],
      [201, 'three'],
    ])
  })

  test(`${engine}: a claim for a client that half-closed takes no job`, async () => {
    await using stage = await serving({}, url)
    const claim = (id: string, waitMs: number) =>
      post(stage, id, { queues: ['default'], limit: 1, waitMs }, '/v1/jobs/claim')
    const begunAt = performance.now()
    assert.deepEqual(await sendAndEnd(stage, claim('wait', 20_000)), [[200, 'wait']])
    assert.ok(performance.now() - begunAt < 10_000, 'the claim waited for a client that may have died')
    const { id } = await stage.box.jobs.add('mail')
    await sleep(50)
    assert.equal((await stage.box.jobs.find(id))?.state, 'ready')
  })
}

test('a client that half-closes while its request runs gets the answer', async () => {
  await using stage = await serving()
  using connection = new RawConnection(Number(new URL(stage.url).port))
  const claim = post(stage, 'wait', { queues: ['default'], limit: 1, waitMs: 20_000 }, '/v1/jobs/claim')
  connection.send(claim)
  await sleep(50)
  connection.end()
  const [answer] = await connection.closes()
  assert.equal(answer?.status, 200)
  assert.match(answer!.head, /\r\nconnection: close/)
  assert.deepEqual(JSON.parse(answer!.body).items, [])
})

test('an incomplete request behind a complete one does not take its answer', async () => {
  await using stage = await serving({}, (folder) => `sqlite:${folder}/half-close.db`)
  const half = post(stage, 'two', { kind: 'two' }).slice(0, -3)
  const answers = await sendAndEnd(stage, post(stage, 'one', { kind: 'one' }) + half)
  assert.deepEqual(answers[0], [201, 'one'])
  assert.deepEqual(
    (await stage.box.jobs.list()).items.map(({ kind }) => kind),
    ['one'],
  )
})

test('a stream ends when its client half-closes', async () => {
  await using stage = await serving()
  using connection = new RawConnection(Number(new URL(stage.url).port))
  const { host } = new URL(stage.url)
  connection.send(`GET /v1/events HTTP/1.1\r\nHost: ${host}\r\nAccept: text/event-stream\r\n\r\n`)
  connection.end()
  await connection.closes(5_000)
})
