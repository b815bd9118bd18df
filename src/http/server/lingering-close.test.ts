import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { test } from 'vitest'
import { closeLingering, isLingering, lingerMs } from './lingering-close.ts'

/** A client, and the server's end of its connection. */
async function pair(): Promise<{ client: Socket; served: Socket } & AsyncDisposable> {
  const server = createServer({ allowHalfOpen: true }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const client = connect({ port, host: '127.0.0.1', allowHalfOpen: true })
  const [served] = (await once(server, 'connection')) as [Socket]
  return {
    client,
    served,
    async [Symbol.asyncDispose]() {
      client.destroy()
      served.destroy()
      server.close()
    },
  }
}

test('a lingering connection closes as soon as its client does', async () => {
  await using both = await pair()
  const { client, served } = both
  client.resume().once('end', () => client.end())
  served.write('answer')
  closeLingering(served)
  closeLingering(served)
  assert.ok(isLingering(served))
  const begunAt = performance.now()
  await once(served, 'close')
  assert.ok(!isLingering(served))
  assert.ok(performance.now() - begunAt < lingerMs / 2)
})

test('a client that continues to send is cut when the time is over', async () => {
  await using both = await pair()
  const { client, served } = both
  client.resume().on('error', () => {})
  const sending = setInterval(() => client.write('more'), 50)
  const begunAt = performance.now()
  closeLingering(served)
  await once(served, 'close')
  clearInterval(sending)
  const tookMs = performance.now() - begunAt
  assert.ok(tookMs > lingerMs - 100 && tookMs < lingerMs + 2_000, `it took ${tookMs} ms`)
})

test('a client that sends endlessly is read up to a limit, and can still read its answer', async () => {
  await using both = await pair()
  const { client, served } = both
  const chunk = Buffer.alloc(1_048_576)
  client.on('error', () => {})
  const send = () => {
    while (client.write(chunk)) {}
  }
  client.on('drain', send)
  send()
  served.write('answer')
  closeLingering(served)
  const closed = once(served, 'close')
  // The server has stopped reading by the time the client looks.
  await once(served, 'pause')
  const [answer] = await once(client, 'data')
  assert.equal(`${answer}`, 'answer')
  assert.ok(isLingering(served) && !client.destroyed)
  await closed
  assert.ok(served.bytesRead < 80 * 1_048_576, `${served.bytesRead} bytes were read`)
})

test('the time starts when the answer is sent, so a slow reader gets a large answer whole', async () => {
  await using both = await pair()
  const { client, served } = both
  const answer = Buffer.alloc(64 * 1_048_576)
  served.write(answer)
  closeLingering(served)
  await new Promise((resolve) => setTimeout(resolve, lingerMs + 300))
  let bytes = 0
  client.on('data', (chunk) => {
    bytes += chunk.length
  })
  await once(client, 'end')
  assert.equal(bytes, answer.length)
})
