import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { inspect } from 'node:util'
import { test } from 'vitest'
import { createOutbound } from '../../../src/monitor/delivery/outbound.ts'
import { aChannel, aMessage, aReply, local } from './messages.ts'

const canary = 'c4n4ry/c4n4ry+x='
const path = 'c4n4ryc4n4ry'

/** A provider that answers with everything it was sent, in whatever place an answer has for words. */
async function startEcho(status: number): Promise<AsyncDisposable & { readonly origin: string }> {
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    const said = `${request.url} ${decodeURIComponent(request.url ?? '')} ${JSON.stringify(request.headers)}`
    response
      .writeHead(status)
      .end(status === 400 ? said : JSON.stringify({ errcode: 310000, errmsg: said, code: 19021, msg: said }))
  })
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  return {
    origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      await new Promise((done) => server.close(done))
    },
  }
}

const configs = (origin: string): readonly object[] => [
  {
    type: 'dingtalk',
    url: `${origin}/robot/send?access_token=${encodeURIComponent(canary)}`,
    secret: canary,
  },
  { type: 'feishu', url: `${origin}/open-apis/bot/v2/hook/${path}`, secret: canary },
  { type: 'wecom', url: `${origin}/cgi-bin/webhook/send?key=${encodeURIComponent(canary)}` },
  { type: 'slack', url: `${origin}/services/T0/B0/${path}` },
  { type: 'webhook', url: `${origin}/${path}`, secret: canary, headers: { authorization: canary } },
]

test('no verdict contains a secret, even when the provider repeats the whole request', async () => {
  for (const status of [200, 400, 500]) {
    await using echo = await startEcho(status)
    await using outbound = createOutbound({ allowPrivate: local })
    for (const config of configs(echo.origin)) {
      const channel = aChannel(config)
      const [request] = channel.compose(aMessage(['x']), channel.robots[0]!, Date.now())
      const verdict = channel.judge(await outbound.send(request!))
      assert.doesNotMatch(
        inspect([verdict, channel.shown, channel.key]),
        /c4n4ry/,
        `${channel.type} ${status}`,
      )
      if (status === 400 && channel.type !== 'feishu') assert.equal(verdict.kind, 'refused')
    }
  }
})

test('a verdict also hides a secret that was never sent', () => {
  for (const type of ['dingtalk', 'feishu', 'webhook']) {
    const channel = aChannel({ type, url: 'https://example.org/hook?access_token=x', secret: canary })
    for (const body of [
      `your secret ${canary} is wrong`,
      { errcode: 1, code: 1, errmsg: canary, msg: canary },
    ]) {
      assert.doesNotMatch(inspect(channel.judge(aReply(400, body))), /c4n4ry/)
    }
  }
})

test('a verdict hides even the shortest secret that a provider issues', () => {
  for (const type of ['dingtalk', 'feishu', 'webhook']) {
    const channel = aChannel({ type, url: 'https://example.org/hook?access_token=x', secret: 'k7!' })
    assert.doesNotMatch(inspect(channel.judge(aReply(400, 'not signed by k7!, but by another'))), /k7!/)
    assert.throws(() => aChannel({ type, url: 'https://example.org/hook', secret: '' }), {
      code: 'invalid_argument',
    })
  }
})

test('no network error contains a secret', async () => {
  // Nothing listens on the first; the others are blocked, unresolved and not reached in time.
  const origins = ['http://127.0.0.1:1', 'https://localhost:1', 'https://c4n4ry.invalid']
  await using closed = createOutbound({
    allowPrivate: ['127.0.0.1'],
    lookup: async (hostname) => {
      if (hostname === 'localhost') return [{ address: '127.0.0.2', family: 4 }]
      throw Object.assign(new Error(`getaddrinfo ENOTFOUND ${hostname}`), { code: 'ENOTFOUND' })
    },
  })
  for (const origin of origins) {
    for (const config of configs(origin)) {
      const channel = aChannel(config)
      const [request] = channel.compose(aMessage(['x']), channel.robots[0]!, Date.now())
      const reply = await closed.send(request!)
      assert.equal(reply.status, 0)
      assert.equal(reply.sure, true)
      assert.doesNotMatch(inspect([reply, channel.judge(reply)]), /c4n4ry/)
    }
  }
})
