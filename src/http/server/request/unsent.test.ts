import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { test } from 'vitest'
import { within } from '../../../../test/support/deadline.ts'
import { Unsent, type UnsentOptions } from './unsent.ts'

/** A server whose answers are all of this size, and clients that decide for themselves when to read. */
async function stage(bytes: number, options: UnsentOptions) {
  const unsent = new Unsent(options)
  const answers: ServerResponse[] = []
  const server = createServer((_request, response) => {
    answers.push(response)
    response.end(Buffer.alloc(bytes))
    unsent.watch(response)
    server.emit('answered')
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const sockets: Socket[] = []
  return {
    unsent,
    answers,
    /** Asks, and reads nothing until it is resumed. */
    async ask(): Promise<Socket> {
      const answered = once(server, 'answered')
      const socket = connect((server.address() as AddressInfo).port, '127.0.0.1').on('error', () => {})
      sockets.push(socket)
      socket.pause().write('GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n')
      await answered
      return socket
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy()
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

const large = 16 * 1_048_576

test('an answer that its reader has taken is no longer counted', async () => {
  await using stand = await stage(large, {})
  const socket = await stand.ask()
  assert.ok(stand.unsent.bytes > 0)
  socket.resume()
  await within(5_000, 'the answer', once(socket, 'close'))
  assert.ok(socket.bytesRead > large)
  assert.equal(stand.unsent.bytes, 0)
})

test('a small answer goes out at once and is never counted', async () => {
  await using stand = await stage(100, {})
  await stand.ask()
  assert.equal(stand.unsent.bytes, 0)
})

test('above the limit the longest waiting answers are cut, and the last one is not', async () => {
  const cut: unknown[] = []
  await using stand = await stage(large, { maxBytes: 2.5 * large, onCut: (answer) => cut.push(answer) })
  for (let i = 0; i < 3; i++) await stand.ask()
  const last = await stand.ask()
  assert.deepEqual(
    stand.answers.map(({ destroyed }) => destroyed),
    [true, true, false, false],
  )
  assert.deepEqual(cut, stand.answers.slice(0, 2))
  assert.ok(stand.unsent.bytes <= 2.5 * large)
  last.resume()
  await within(5_000, 'the answer', once(last, 'close'))
  assert.ok(last.bytesRead > large)
})

test('one answer may be larger than the limit', async () => {
  await using stand = await stage(large, { maxBytes: 1 })
  const socket = await stand.ask()
  socket.resume()
  await within(5_000, 'the answer', once(socket, 'close'))
  assert.ok(socket.bytesRead > large)
})

test('a reader that takes nothing is cut after a time that grows with its data', async () => {
  const timers: { callback: () => void; ms: number }[] = []
  const clock = {
    now: () => 0,
    setTimeout: (callback: () => void, ms: number) => timers.push({ callback, ms }),
    clearTimeout: () => {},
  }
  await using stand = await stage(large, { graceMs: 1_000, bytesPerSecond: 1_048_576, clock })
  await stand.ask()
  assert.equal(timers.length, 1)
  assert.ok(timers[0]!.ms > 10_000 && timers[0]!.ms < 18_000, String(timers[0]!.ms))
  const [answer] = stand.answers
  const closed = once(answer!, 'close')
  timers[0]!.callback()
  await within(5_000, 'the cut', closed)
  assert.equal(stand.unsent.bytes, 0)
})
