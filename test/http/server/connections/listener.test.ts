import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect } from 'node:net'
import { json, text } from 'node:stream/consumers'
import { connectNode } from 'signalbox/client'
import { expect, test } from 'vitest'
import { WebSocket } from 'ws'
import { EventParser } from '../../../../src/http/contract/index.ts'
import { within } from '../../../support/deadline.ts'
import { listening, type Stage } from '../stage.ts'

const secret = 'a-secret-of-thirty-two-characters!'

test('in an app, requests outside the base path go to the next middleware', async () => {
  await using stage = await listening({ basePath: '/box', trust: true }, (request, response, { listener }) =>
    listener(request, response, () => response.end('the app')),
  )
  assert.equal((await stage.ask('GET', '/box/livez')).status, 200)
  assert.equal((await stage.ask('GET', '/elsewhere')).body, 'the app')
  assert.equal((await stage.ask('GET', '/boxes/livez')).body, 'the app')
})

test('a router may strip its prefix off the url', async () => {
  await using stage = await listening(
    { basePath: '/box', trust: true },
    (request, response, { listener }) => {
      // As Express does for `app.use('/box', …)`.
      Object.assign(request, { originalUrl: request.url, url: request.url!.slice('/box'.length) || '/' })
      listener(request, response)
    },
  )
  assert.equal((await stage.ask('GET', '/box/livez')).status, 200)
  assert.deepEqual((await stage.ask('GET', '/box/v1/jobs?limit=3')).body.items, [])
})

test("a body that a parser has read before is taken from the parser's result", async () => {
  for (const keep of ['body', 'rawBody'] as const) {
    await using stage = await listening({ trust: true }, async (request, response, { listener }) => {
      if (request.method === 'POST') {
        const body = await json(request)
        Object.assign(request, { [keep]: keep === 'body' ? body : Buffer.from(JSON.stringify(body)) })
      }
      listener(request, response)
    })
    const added = await stage.ask('POST', '/v1/jobs', { body: { kind: 'mail', payload: { to: 'Ada' } } })
    assert.equal(added.status, 201)
    assert.deepEqual((await stage.box.jobs.find(added.body.id))?.payload, { to: 'Ada' })
    const large = { kind: 'mail', payload: 'x'.repeat(1_048_576) }
    assert.equal((await stage.ask('POST', '/v1/jobs', { body: large })).status, 413)
  }
})

test('a body that was read and discarded is the app’s mistake, and is logged for operators', async () => {
  const errors: unknown[] = []
  await using stage = await listening(
    { trust: true, onError: (error) => errors.push(error) },
    async (request, response, { listener }) => {
      await json(request)
      listener(request, response)
    },
  )
  const { status, body } = await stage.ask('POST', '/v1/jobs', { body: { kind: 'mail' } })
  assert.deepEqual([status, body.code], [500, 'internal'])
  assert.match(String(errors[0]), /Mount Signalbox before body parsers/)
})

test('a client that is still sending when its last request is refused can read the reason', async () => {
  await using stage = await listening({ trust: true })
  const { hostname, port } = new URL(stage.url)
  const socket = connect(Number(port), hostname).pause()
  socket.on('error', () => {})
  socket.write(
    'POST /v1/jobs HTTP/1.1\r\nhost: a\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: 9000000\r\n\r\n',
  )
  await new Promise<void>((resolve, reject) =>
    socket.write('x'.repeat(9_000_000), (error) => (error ? reject(error) : resolve())),
  )
  assert.match(await text(socket), /^HTTP\/1\.1 413 /)
})

test('the server does not wait for a body that comes too late', async () => {
  await using stage = await listening({ trust: true, requestTimeoutMs: 50 })
  const { hostname, port } = new URL(stage.url)
  const socket = connect(Number(port), hostname)
  socket.write(
    `POST /v1/jobs HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{"a`,
  )
  const [head] = await within(10_000, 'an answer', once(socket, 'data'))
  assert.match(String(head), /^HTTP\/1\.1 408 /)
  socket.destroy()
})

test('a waiting claim ends when its client disconnects', async () => {
  await using stage = await listening()
  const gone = new AbortController()
  const waiting = stage.ask('POST', '/v1/jobs/claim', { body: { waitMs: 30_000 }, signal: gone.signal })
  const claimsWaiting = async (count: number) => {
    while (!new RegExp(`^signalbox_claims_waiting ${count}$`, 'm').test(await metrics(stage)));
  }
  await claimsWaiting(1)
  gone.abort()
  await assert.rejects(waiting)
  await within(10_000, 'the claim to be let go', claimsWaiting(0))
})

async function metrics({ ask }: Stage): Promise<string> {
  return (await ask('GET', '/metrics')).body
}

test('a stream arrives piece by piece, and ends when the handler closes', async () => {
  await using stage = await listening()
  await stage.box.jobs.add('mail')
  const { body, headers } = await fetch(`${stage.url}/v1/events`)
  assert.equal(headers.get('content-type'), 'text/event-stream; charset=utf-8')
  const types: string[] = []
  const parser = new EventParser(({ type }) => types.push(type))
  for await (const chunk of body!) {
    parser.push(chunk)
    if (types.length === 1) void stage.handler.close()
  }
  assert.deepEqual(types, ['queues'])
  assert.equal((await stage.ask('GET', '/v1/jobs')).status, 503)
})

test('a stream whose reader disconnects leaves nothing behind', async () => {
  await using stage = await listening()
  const gone = new AbortController()
  const open = async (count: number) => {
    while (!new RegExp(`^signalbox_streams_open ${count}$`, 'm').test(await metrics(stage)));
  }
  await fetch(`${stage.url}/v1/events`, { signal: gone.signal })
  await open(1)
  gone.abort()
  await within(10_000, 'the stream to be forgotten', open(0))
})

test("an error of the app's response wrapper is passed to the app, and no stream is left behind", async () => {
  const reported: unknown[] = []
  await using stage = await listening({ trust: true }, (request, response, { listener }) => {
    if (request.url === '/metrics') return listener(request, response)
    // As a hook before the head is written may do.
    response.writeHead = () => {
      throw new Error('No session.')
    }
    if (request.method === 'HEAD') return listener(request, response)
    listener(request, response, (error) => {
      reported.push(error)
      response.destroy()
    })
  })
  for (const path of ['/v1/events', '/v1/jobs']) await assert.rejects(fetch(stage.url + path))
  assert.deepEqual(reported.map(String), ['Error: No session.', 'Error: No session.'])
  assert.match(await metrics(stage), /^signalbox_streams_open 0$/m)
  await assert.rejects(fetch(`${stage.url}/livez`, { method: 'HEAD' }), 'without a next it is cut')
})

test('a stream whose response another middleware sent is dropped, and that response is unchanged', async () => {
  await using stage = await listening({ trust: true }, (request, response, { listener }) => {
    listener(request, response)
    if (request.url === '/metrics') return
    response.write('too ')
    setTimeout(() => response.end('slow'), 20)
  })
  assert.equal(await (await fetch(`${stage.url}/v1/events`)).text(), 'too slow')
  assert.match(await metrics(stage), /^signalbox_streams_open 0$/m)
})

test('nodes connect through an app’s upgrades, below its base path', async () => {
  await using stage = await listening({ basePath: '/box', bootstrap: [secret] })
  await using node = await connectNode(`${stage.url.replace('http', 'ws')}/box`, {
    token: secret,
    nodeId: 'worker-1',
    services: [{ name: 'greet', slots: 1 }],
    onTask: ({ payload }) => ({ greeted: payload }),
  })
  assert.equal(node.status, 'connected')
  const headers = { authorization: `Bearer ${secret}` }
  const { status, body } = await stage.ask('POST', '/box/v1/tasks', {
    headers,
    body: { service: 'greet', payload: 'Ada' },
  })
  assert.equal(status, 202)
  const task = async () => (await stage.ask('GET', `/box/v1/tasks/${body.taskId}`, { headers })).body
  await expect.poll(async () => (await task()).status, { timeout: 10_000 }).toBe('completed')
  assert.deepEqual((await task()).output, { greeted: 'Ada' })
})

test('an upgrade needs a token even in a trusted app, and other upgrades belong to the app', async () => {
  await using stage = await listening({ basePath: '/box', trust: true })
  assert.equal((await stage.ask('GET', '/box/v1/jobs')).status, 200)
  const refusal = async (path: string) => {
    const socket = new WebSocket(stage.url.replace('http', 'ws') + path)
    const [error] = await within(10_000, 'a refusal', once(socket, 'error'))
    return String(error)
  }
  assert.match(await refusal('/box/v1/nodes/connect'), /401/)
  assert.match(await refusal('/box/elsewhere'), /404/)
  // The stage cuts what the handler leaves to it.
  assert.match(await refusal('/chat'), /hang up/)
})
