import assert from 'node:assert/strict'
import type { ServerResponse } from 'node:http'
import { test } from 'vitest'
import {
  type FakeServer,
  fakeServer,
  json,
  page,
  problem,
  type Script,
} from '../../../test/http/client/fake-server.ts'
import { within } from '../../../test/support/deadline.ts'
import { inGrowingLeases } from '../../../test/support/spans.ts'
import type { SignalboxError } from '../../core/errors.ts'
import { createClient, jobEvents, type StreamEvent } from './index.ts'

function openStream(response: ServerResponse, text = ''): void {
  response.writeHead(200, { 'content-type': 'text/event-stream; charset=utf-8' })
  response.flushHeaders()
  if (text !== '') response.write(text)
}

interface Reading extends AsyncDisposable {
  readonly events: StreamEvent[]
  readonly breaks: { readonly error: SignalboxError; readonly retryInMs: number }[]
  readonly opened: () => number
  readonly ended: Promise<void>
  stop(): void
}

function read(
  server: FakeServer,
  options: { silenceMs?: number; token?: string; timeoutMs?: number } = {},
): Reading {
  const { silenceMs, token, timeoutMs = 5_000 } = options
  const controller = new AbortController()
  const events: StreamEvent[] = []
  const breaks: { error: SignalboxError; retryInMs: number }[] = []
  let opened = 0
  const client = createClient(server.url, { token, timeoutMs })
  const ended = client.stream(jobEvents, {
    query: { queues: 'mail' },
    signal: controller.signal,
    onOpen: () => opened++,
    onEvent: (event) => events.push(event),
    onBreak: (error, retryInMs) => breaks.push({ error, retryInMs }),
    silenceMs,
  })
  ended.catch(() => undefined)
  return {
    events,
    breaks,
    opened: () => opened,
    ended,
    stop: () => controller.abort(),
    async [Symbol.asyncDispose]() {
      client.close()
      await ended.catch(() => undefined)
    },
  }
}

async function until(what: string, isSo: () => boolean): Promise<void> {
  const look = async () => {
    while (!isSo()) await new Promise((resolve) => setTimeout(resolve, 2))
  }
  await within(8_000, what, look())
}

test('events come in order with their ids and parsed data, however the bytes are split', async () => {
  const text = ': hello\n\nid: 1\nevent: ready\ndata: {"queue":"mäil"}\n\nevent: cancel\ndata: {}\n\n'
  await using server = await fakeServer(async (_, response) => {
    openStream(response)
    for (const byte of Buffer.from(text)) {
      response.write(Buffer.from([byte]))
      await new Promise((resolve) => setImmediate(resolve))
    }
  })
  await using reading = read(server, { token: 'sesame' })
  await until('both came', () => reading.events.length === 2)
  assert.deepEqual(reading.events, [
    { id: '1', type: 'ready', data: { queue: 'mäil' } },
    { id: '1', type: 'cancel', data: {} },
  ])
  const [{ path, headers }] = server.seen as [(typeof server.seen)[number]]
  assert.equal(path, '/v1/jobs/events?queues=mail')
  assert.deepEqual([headers.authorization, headers['last-event-id']], ['Bearer sesame', undefined])
})

test('a broken stream is opened again where it was', async () => {
  const troubles: Script[] = [
    (_, response) => openStream(response, 'id: 7\nevent: ready\ndata: {"n":1}\n\n'),
    (_, response) => problem(response, 503, 'draining'),
    (_, response) => void response.destroy(),
    (_, response) => openStream(response, 'id: 8\nevent: ready\ndata: {"n":2}\n\n'),
  ]
  await using server = await fakeServer((seen, response, nth) => {
    const end = () => (nth === 0 ? response.destroy() : undefined)
    troubles[nth]?.(seen, response, nth)
    setTimeout(end, 30)
  })
  await using reading = read(server)
  await until('the second came', () => reading.events.length === 2)
  assert.deepEqual(
    reading.events.map(({ id }) => id),
    ['7', '8'],
  )
  assert.equal(reading.opened(), 2)
  assert.deepEqual(
    server.seen.map(({ headers }) => headers['last-event-id']),
    [undefined, '7', '7', '7'],
  )
  assert.deepEqual(
    reading.breaks.map(({ error }) => error.code),
    ['store_unavailable', 'draining', 'store_unavailable'],
  )
})

test('after an end by the server the client reconnects after the requested wait', async () => {
  const at: number[] = []
  await using server = await fakeServer((_, response, nth) => {
    at.push(performance.now())
    openStream(response, nth === 0 ? 'retry: 600\n\nevent: x\ndata: 1\n\n' : 'event: x\ndata: 2\n\n')
    if (nth === 0) response.end()
  })
  await using reading = read(server)
  await until('the second came', () => reading.events.length === 2)
  assert.ok(at[1]! - at[0]! >= 290, `${at[1]! - at[0]!} ms`)
  assert.ok(reading.breaks[0]!.retryInMs >= 300 && reading.breaks[0]!.retryInMs <= 900)
})

test('a server that asks for an immediate or endless wait gets a moderate one', async () => {
  for (const [wish, least, most] of [
    ['0', 25, 1_000],
    ['99999999999', 3_600_000, 3_600_000],
  ] as const) {
    await using server = await fakeServer((_, response) => {
      openStream(response, `retry: ${wish}\n\n`)
      response.end()
    })
    await using reading = read(server)
    await until('it broke', () => reading.breaks.length === 1)
    const { retryInMs } = reading.breaks[0]!
    assert.ok(retryInMs >= least && retryInMs <= most, `${retryInMs} ms`)
  }
})

test('too_many is obeyed: the stream waits as long as Retry-After says', async () => {
  await using server = await fakeServer((_, response) =>
    problem(response, 429, 'too_many', { headers: { 'retry-after': '30' } }),
  )
  await using reading = read(server)
  await until('it was refused', () => reading.breaks.length === 1)
  assert.ok(reading.breaks[0]!.retryInMs >= 30_000)
})

test('silence counts as a cut, and signs of life do not', async () => {
  await inGrowingLeases(250, async (silenceMs) => {
    await using server = await fakeServer((_, response, nth) => {
      openStream(response, 'event: x\ndata: 1\n\n')
      if (nth === 0) return
      const timer = setInterval(() => response.write(':\n\n'), 20)
      response.on('close', () => clearInterval(timer))
    })
    await using reading = read(server, { silenceMs })
    await until('it was opened again', () => reading.opened() === 2)
    assert.equal(reading.breaks[0]?.error.code, 'timeout')
    await new Promise((resolve) => setTimeout(resolve, 2.7 * silenceMs))
    assert.deepEqual([reading.opened(), reading.breaks.length], [2, 1])
  })
}, 60_000)

test('the client gives up in time a server that accepts the connection and stays silent', async () => {
  await using server = await fakeServer((_, response, nth) => {
    if (nth > 0) openStream(response, 'event: x\ndata: 1\n\n')
  })
  await using reading = read(server, { timeoutMs: 300 })
  await until('it was opened', () => reading.opened() === 1)
  assert.equal(reading.breaks[0]?.error.code, 'timeout')
})

test('a refusal ends the stream with its error: the token, the scope, the path, a redirect, a page', async () => {
  const refusals: readonly (readonly [Script, string])[] = [
    [(_, response) => problem(response, 401, 'unauthorized'), 'unauthorized'],
    [(_, response) => problem(response, 403, 'forbidden'), 'forbidden'],
    [(_, response) => problem(response, 404, 'not_found'), 'not_found'],
    [(_, response) => problem(response, 400, 'invalid_argument'), 'invalid_argument'],
    [(_, response) => page(response, 302, { location: '/login' }), 'store_unavailable'],
    [(_, response) => page(response, 200), 'store_unavailable'],
    [(_, response) => json(response, {}), 'store_unavailable'],
  ]
  for (const [script, code] of refusals) {
    await using server = await fakeServer(script)
    await using reading = read(server)
    await assert.rejects(within(5_000, code, reading.ended), { code })
    assert.equal(server.seen.length, 1)
  }
})

test('a token that is revoked meanwhile ends the stream at its reconnect', async () => {
  await using server = await fakeServer((_, response, nth) => {
    if (nth > 0) return problem(response, 401, 'unauthorized')
    openStream(response, 'event: x\ndata: 1\n\n')
    response.end()
  })
  await using reading = read(server)
  await assert.rejects(within(5_000, 'the end', reading.ended), { code: 'unauthorized' })
})

test('an endless event, or one that is not JSON, breaks the connection and not the reader', async () => {
  await using server = await fakeServer((_, response, nth) => {
    openStream(response)
    if (nth === 0) response.write('event: x\ndata: {"cut\n\n')
    else if (nth === 1) for (let i = 0; i < 20; i++) response.write(`data: ${'x'.repeat(100_000)}\n`)
    else response.write('event: x\ndata: 1\n\n')
  })
  await using reading = read(server)
  await until('it came in the end', () => reading.events.length === 1)
  assert.deepEqual(
    reading.breaks.map(({ error }) => error.code),
    ['store_unavailable', 'too_large'],
  )
})

test('a signal ends the stream without an error, also while it waits', async () => {
  await using open = await fakeServer((_, response) => openStream(response))
  await using away = await fakeServer((_, response) => problem(response, 503, 'draining'))
  for (const [server, isThere] of [
    [open, (reading: Reading) => reading.opened() === 1],
    [away, (reading: Reading) => reading.breaks.length === 1],
  ] as const) {
    await using reading = read(server)
    await until('it is there', () => isThere(reading))
    reading.stop()
    await within(2_000, 'the end', reading.ended)
  }
  using client = createClient(open.url)
  const before = open.seen.length
  await client.stream(jobEvents, { signal: AbortSignal.abort(), onEvent: () => undefined })
  assert.equal(open.seen.length, before)
})

test('an error of a callback ends the stream with that error', async () => {
  await using server = await fakeServer((_, response) => openStream(response, 'event: x\ndata: 1\n\n'))
  const mine = new Error('mine')
  const fail = () => {
    throw mine
  }
  using client = createClient(server.url)
  const ended = client.stream(jobEvents, { onEvent: fail })
  await assert.rejects(within(5_000, 'the end', ended), mine)
})
