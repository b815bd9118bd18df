import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type IncomingMessage, type RequestListener } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { text } from 'node:stream/consumers'
import { test } from 'vitest'
import { createListener } from './listener.ts'
import { NodeIncoming, writeText } from './node-http.ts'
import { InFlight } from './request/in-flight.ts'

const limits = { maxBytes: 100, maxKeys: 10 }

/** A server that tells how it read each body: `heard` is whether it had to listen for its parts. */
async function setUp() {
  const read: { readonly body: string; readonly heard: boolean }[] = []
  const server = createServer((request: IncomingMessage, response) => {
    const take = async () => {
      // As the API does, which first finds out who asks.
      await null
      const reading = new NodeIncoming(request, response).readBody(limits)
      const heard = request.listenerCount('data') > 0
      read.push({ body: Buffer.from(await reading).toString(), heard })
    }
    take().then(
      () => response.end('taken'),
      (error: { code: string }) => response.end(error.code),
    )
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    read,
    /** Sends these parts one after the other, and gives what came back. */
    async send(...parts: string[]) {
      const socket = connect(port, '127.0.0.1').setNoDelay(true)
      const answer = text(socket)
      for (const part of parts) {
        socket.write(part)
        await new Promise((resolve) => setTimeout(resolve, 20))
      }
      socket.end()
      return answer
    },
    async [Symbol.asyncDispose]() {
      server.close()
      server.closeAllConnections()
    },
  }
}

const head = (line: string) => `POST / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n${line}\r\n\r\n`

test('a body that came with its head is used directly; one in parts is read from the socket', async () => {
  await using server = await setUp()
  await server.send(`${head('Content-Length: 4')}abcd`)
  await server.send(`${head('Content-Length: 4')}ab`, 'cd')
  await server.send(head('Content-Length: 4'), 'abcd')
  await server.send(head('Content-Length: 0'))
  assert.deepEqual(server.read, [
    { body: 'abcd', heard: false },
    { body: 'abcd', heard: true },
    { body: 'abcd', heard: true },
    { body: '', heard: false },
  ])
})

test('a body without a length is read to its end, up to its limit', async () => {
  await using server = await setUp()
  await server.send(`${head('Transfer-Encoding: chunked')}4\r\nabcd\r\n0\r\n\r\n`)
  await server.send(head('Transfer-Encoding: chunked'), '2\r\nab\r\n', '2\r\ncd\r\n', '0\r\n\r\n')
  const long = 'x'.repeat(200)
  const refused = await server.send(`${head('Transfer-Encoding: chunked')}c8\r\n${long}\r\n0\r\n\r\n`)
  assert.match(refused, /too_large$/)
  assert.match(await server.send(`${head('Content-Length: 200')}${long}`), /too_large$/)
  assert.deepEqual(
    server.read.map(({ body }) => body),
    ['abcd', 'abcd'],
  )
})

test('a 304 answer has no content length, with each of Node’s adapters', async () => {
  const unchanged = { status: 304, headers: { etag: '"a"' }, body: '' }
  const listener = createListener({
    service: { api: { answer: async () => unchanged }, streams: {} as never },
    inFlight: new InFlight(),
    basePath: '',
    requestTimeoutMs: 1_000,
  })
  const adapters: readonly RequestListener[] = [
    (request, response) => writeText(request, response, unchanged, []),
    (request, response) => listener(request, response),
  ]
  for (const adapter of adapters) {
    const server = createServer(adapter).listen(0, '127.0.0.1')
    await once(server, 'listening')
    const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
    socket.write('GET / HTTP/1.1\r\nHost: here\r\nConnection: close\r\n\r\n')
    const answer = await text(socket)
    assert.match(answer, /^HTTP\/1\.1 304 Not Modified\r\n[\s\S]*\r\n\r\n$/)
    assert.doesNotMatch(answer, /content-length|transfer-encoding/i)
    server.close()
  }
})
