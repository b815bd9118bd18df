import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { writeTextFrame } from './text-frame.ts'

test('texts of every length and kind arrive as they were sent, between what ws sends itself', async () => {
  const lengths = [0, 1, 125, 126, 127, 65_535, 65_536, 200_000]
  const texts = lengths.flatMap((length) => ['a', 'ü', '价', '🦉'].map((letter) => letter.repeat(length)))
  const http = createServer().listen(0, '127.0.0.1')
  const handshake = new WebSocketServer({ noServer: true, perMessageDeflate: false })
  http.on('upgrade', (request, socket, head) => {
    handshake.handleUpgrade(request, socket, head, (ws) => {
      for (const text of texts) {
        ws.ping()
        writeTextFrame(socket, text, Buffer.byteLength(text))
      }
      ws.close(1000)
    })
  })
  await once(http, 'listening')

  const client = new WebSocket(`ws://127.0.0.1:${(http.address() as AddressInfo).port}`)
  const heard: string[] = []
  client.on('message', (data: Buffer, isBinary) => heard.push(isBinary ? 'binary' : data.toString()))
  const [code] = (await once(client, 'close')) as [number]
  http.close()
  expect(code).toBe(1000)
  expect(heard.length).toBe(texts.length)
  expect(heard.every((text, at) => text === texts[at])).toBe(true)
})
