import assert from 'node:assert/strict'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { duplexPair } from 'node:stream'
import { text } from 'node:stream/consumers'
import { open } from 'signalbox'
import { createServer } from 'signalbox/server'
import { test } from 'vitest'
import { SignalboxError } from '../../../../src/core/errors.ts'
import { answerOnSocket } from '../../../../src/http/server/request/problem.ts'
import { within } from '../../../support/deadline.ts'
import { type Stage, serving } from '../stage.ts'

function dial({ url }: Pick<Stage, 'url'>): Socket {
  return connect(Number(new URL(url).port), '127.0.0.1').on('error', () => {})
}

test('a connection above the cap learns when to come again', async () => {
  await using stage = await serving({ maxConnections: 2 })
  const first = [dial(stage), dial(stage)]
  await Promise.all(first.map((socket) => once(socket, 'connect')))
  const answer = await within(5_000, 'the refusal', text(dial(stage)))
  assert.match(answer, /^HTTP\/1\.1 429 /)
  assert.match(answer, /\r\nretry-after: 1\r\n/)
  assert.match(answer, /"code":"too_many"/)
  for (const socket of first) socket.destroy()
})

test('a refusal on a bare socket has the headers of any other refusal', async () => {
  const refusals = [
    [new SignalboxError('unauthorized', 'no'), /\r\nwww-authenticate: Bearer realm="signalbox"\r\n/],
    [new SignalboxError('too_many', 'no', { details: { retryAfterMs: 1_001 } }), /\r\nretry-after: 2\r\n/],
    [new SignalboxError('draining', 'no', { details: { retryAfterMs: 1 } }), /\r\nretry-after: 1\r\n/],
  ] as const
  for (const [error, header] of refusals) {
    const [socket, client] = duplexPair()
    answerOnSocket(error, socket)
    const answer = await text(client)
    assert.match(answer, header)
    assert.match(answer, /\r\nx-content-type-options: nosniff\r\n/)
    const [head, body] = answer.split('\r\n\r\n')
    assert.match(head!, new RegExp(`content-length: ${body!.length}\\b`))
  }
})

test('a header behind thousands of others counts like any other', async () => {
  await using stage = await serving()
  const socket = dial(stage)
  const { host } = new URL(stage.url)
  const crowd = 'a:\r\n'.repeat(2_100)
  socket.write(
    `GET /livez HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n${crowd}Origin: http://evil.example\r\n\r\n`,
  )
  assert.match(await within(5_000, 'the answer', text(socket)), /^HTTP\/1\.1 403 [\s\S]*another site/)
})

/** A server whose claims wait until the test releases them. */
async function slowClaims() {
  const box = await open('memory:')
  const asked = Promise.withResolvers<void>()
  const letGo = Promise.withResolvers<void>()
  const backend = new Proxy(box.backend, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name)
      if (name !== 'within') return typeof member === 'function' ? member.bind(target) : member
      return (namespace: string) => {
        const stores = target.within(namespace)
        const jobs = new Proxy(stores.jobs, {
          get(store, verb) {
            const call: unknown = Reflect.get(store, verb)
            if (typeof call !== 'function') return call
            return async (...args: unknown[]) => {
              const answer = await Reflect.apply(call, store, args)
              if (verb === 'claim') {
                asked.resolve()
                await letGo.promise
              }
              return answer
            }
          },
        })
        return { ...stores, jobs }
      }
    },
  })
  const server = createServer({ box: { backend }, port: 0 })
  const { url } = await server.listen()
  return {
    url,
    box,
    asked: asked.promise,
    letGo: letGo.resolve,
    async [Symbol.asyncDispose]() {
      letGo.resolve()
      await server.close()
      await box.close()
    },
  }
}

for (const waitMs of [0, 30_000]) {
  test(`a client that leaves while a job is claimed for it takes none with it (waitMs ${waitMs})`, async () => {
    await using stage = await slowClaims()
    const { id } = await stage.box.jobs.add('mail', {})
    const body = JSON.stringify({ waitMs, leaseMs: 60_000 })
    const socket = dial(stage)
    socket.write(
      `POST /v1/jobs/claim HTTP/1.1\r\nHost: ${new URL(stage.url).host}\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`,
    )
    await within(5_000, 'the claim', stage.asked)
    socket.destroy()
    // Later requests give the server time to notice the event before it answers.
    for (let i = 0; i < 5; i++) await fetch(`${stage.url}/livez`)
    stage.letGo()
    const isBack = async () => {
      while ((await stage.box.jobs.find(id))?.state !== 'ready') await fetch(`${stage.url}/livez`)
    }
    await within(5_000, 'its return to the line', isBack())
    assert.equal((await stage.box.jobs.find(id))?.attempt, 0, 'and it costs no attempt')
  })
}
