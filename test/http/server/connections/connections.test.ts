import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { test } from 'vitest'
import { EventParser } from '../../../../src/http/contract/index.ts'
import { within } from '../../../support/deadline.ts'
import { type Stage, serving } from '../stage.ts'

/** Sends a request with these headers and reads until the server closes. */
async function send({ url }: Stage, path: string, headers: string): Promise<string> {
  const { port, host } = new URL(url)
  const socket = connect(Number(port), '127.0.0.1')
  socket.on('error', () => {})
  socket.write(`GET ${path} HTTP/1.1\r\nHost: ${host}\r\n${headers}\r\n`)
  return within(5_000, 'the answer', text(socket))
}

test('a stream starts with the present state, and a closing server ends it with a reconnect time', async () => {
  const stage = await serving({ graceMs: 60_000 })
  await stage.ask('POST', '/v1/jobs', { body: { kind: 'mail' } })
  const { body } = await fetch(`${stage.url}/v1/events`)
  const events: { type: string; data: string }[] = []
  const parser = new EventParser((event) => events.push(event))
  let closed: Promise<void> | undefined
  for await (const chunk of body!) {
    parser.push(chunk)
    if (events.length > 0) closed ??= Promise.resolve(stage[Symbol.asyncDispose]())
  }
  assert.equal(events[0]?.type, 'queues')
  assert.equal(JSON.parse(events[0]!.data).items[0].ready, 1)
  assert.ok((parser.retryMs ?? 0) >= 2_000)
  await within(5_000, 'closing', closed!)
})

test('a client that offers HTTP/2 is served in HTTP/1.1', async () => {
  await using stage = await serving()
  const hopeful = 'Connection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n'
  assert.match(await send(stage, '/livez', hopeful), /^HTTP\/1\.1 200 [\s\S]*"status":"ok"/)
})

test('a WebSocket on another path gets a problem document', async () => {
  await using stage = await serving()
  const upgrade =
    'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n'
  const answer = await send(stage, '/v1/nodes/elsewhere', upgrade)
  assert.match(answer, /^HTTP\/1\.1 404 [\s\S]*application\/problem\+json[\s\S]*"code":"not_found"/)
})
