import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { test } from 'vitest'
import { createWorkplace } from '../../../cli/command.ts'
import { within } from '../../../support/deadline.ts'
import { serving } from '../stage.ts'
import { dribble, percentile } from './dribblers.ts'

test('hundreds of clients that send very slowly are cut, and a good client does not notice', {
  timeout: 120_000,
}, async () => {
  await using stage = await serving({ headersTimeoutMs: 1_500, requestTimeoutMs: 2_000, timeoutCheckMs: 500 })
  const { goodMs, badAnswers, cut } = await dribble({
    url: stage.url,
    dribblers: 400,
    forMs: 8_000,
    everyMs: 300,
  })
  assert.equal(badAnswers, 0)
  assert.ok(goodMs.length > 50, `only ${goodMs.length} good requests`)
  const slowest = goodMs.slice(-3).map(Math.round).join(', ')
  assert.ok(
    percentile(goodMs, 0.99) <= 1_000,
    `p99 of ${goodMs.length} was ${percentile(goodMs, 0.99)} ms; the slowest took ${slowest} ms`,
  )
  assert.ok(cut >= 400, `only ${cut} were cut`)
  const { body } = await stage.ask('GET', '/v1/queues')
  assert.deepEqual(body.items, [], 'no half request has an effect')
})

/** Resident memory of a process, in bytes. */
function memoryOf(pid: number): number {
  const [, kilobytes] = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, 'utf8')) ?? []
  return Number(kilobytes) * 1_024
}

/** Asks for something and never reads a byte of it. */
async function askWithoutReading(url: string, path: string): Promise<Socket> {
  const { port, host } = new URL(url)
  const socket = connect(Number(port), '127.0.0.1').on('error', () => {})
  socket.pause()
  await once(socket, 'connect')
  socket.write(`GET ${path} HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
  return socket
}

/** How long that took. */
async function askLivez(url: string): Promise<number> {
  const at = performance.now()
  assert.equal((await fetch(`${url}/livez`)).status, 200)
  return performance.now() - at
}

const isLinux = process.platform === 'linux'
const post = (body: unknown) => ({
  method: 'POST',
  headers: { 'content-type': 'application/json' },
  body: JSON.stringify(body),
})

test.runIf(isLinux)(
  '500 readers of a stream that read nothing cost the server less than 150 MB',
  {
    timeout: 60_000,
  },
  async () => {
    using place = createWorkplace()
    await using server = await place.serve(['--log-level=error', '--database=memory:'])
    // Many queues with long names, so that each change has much data.
    const queues = Array.from({ length: 200 }, (_, i) => `${i}-${'q'.repeat(180)}`)
    const addToAll = async () => {
      const jobs = queues.map((queue) => ({ kind: 'mail', queue }))
      assert.equal((await fetch(`${server.url}/v1/jobs`, post(jobs))).status, 201)
    }
    await addToAll()
    const before = memoryOf(server.pid)
    const sockets = await Promise.all(
      Array.from({ length: 500 }, () => askWithoutReading(server.url, '/v1/events')),
    )
    let most = 0
    for (const until = Date.now() + 6_000; Date.now() < until; ) {
      await addToAll()
      // Once more at once, in case the machine froze; readers that slow the server do so again.
      const asked = await askLivez(server.url)
      if (asked >= 1_000) assert.ok((await askLivez(server.url)) < 1_000, 'the neighbour is not slowed')
      most = Math.max(most, memoryOf(server.pid) - before)
      await sleep(250)
    }
    for (const socket of sockets) socket.destroy()
    assert.ok(most < 150 * 1_048_576, `it took ${Math.round(most / 1_048_576)} MB`)
  },
)

test.runIf(isLinux)(
  'a page of the largest jobs is short, and clients that do not read it fill no memory',
  {
    timeout: 180_000,
  },
  async () => {
    using place = createWorkplace()
    await using server = await place.serve(['--log-level=error', '--database=memory:'])
    const payload = 'x'.repeat(256 * 1_024 - 2)
    for (let i = 0; i < 10; i++) {
      const jobs = Array.from({ length: 20 }, () => ({ kind: 'large', payload }))
      assert.equal((await fetch(`${server.url}/v1/jobs`, post(jobs))).status, 201)
    }
    const ids = new Set<string>()
    for (let cursor: string | null = ''; cursor !== null; ) {
      const query: string = cursor === '' ? '' : `&cursor=${cursor}`
      const text = await (await fetch(`${server.url}/v1/jobs?limit=500${query}`)).text()
      assert.ok(text.length < 12 * 1_048_576, `a page of ${text.length} characters`)
      const page = JSON.parse(text) as { items: { id: string }[]; cursor: string | null }
      for (const { id } of page.items) ids.add(id)
      cursor = page.cursor
    }
    assert.equal(ids.size, 200, 'every job is on one of the pages')

    const before = memoryOf(server.pid)
    const sockets: Socket[] = []
    let most = 0
    for (let i = 0; i < 60; i++) {
      sockets.push(await askWithoutReading(server.url, '/v1/jobs?limit=500'))
      assert.equal((await within(5_000, 'livez', fetch(`${server.url}/livez`))).status, 200)
      most = Math.max(most, memoryOf(server.pid) - before)
    }
    for (const socket of sockets) socket.destroy()
    // 100 pages of 6.5 MB are 650 MB; a quarter of a gigabyte may wait, and what the last ones took to make.
    assert.ok(most < 512 * 1_048_576, `it took ${Math.round(most / 1_048_576)} MB`)
  },
)
