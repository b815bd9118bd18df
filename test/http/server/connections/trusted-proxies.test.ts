import assert from 'node:assert/strict'
import { once } from 'node:events'
import { PassThrough } from 'node:stream'
import { createLog, createServer } from 'signalbox/server'
import { test } from 'vitest'
import { WebSocket } from 'ws'
import { nodesPath } from '../../../../src/http/contract/index.ts'
import { type Reply, type Stage, serving } from '../stage.ts'

const bootstrap = 'bootstrap-secret-of-32-characters'
const caps = { bootstrap: [bootstrap], maxFailuresPerAddress: 1 }

/** Asks with a wrong token, as a proxy passes it on. */
function guess({ ask }: Stage, forwardedFor: string): Promise<Reply> {
  const headers = { authorization: 'Bearer wrong', 'x-forwarded-for': forwardedFor }
  return ask('GET', '/v1/queues', { headers })
}

/** The status with which a WebSocket is refused. */
async function knock({ url }: Stage, forwardedFor: string): Promise<number> {
  const headers = { authorization: 'Bearer wrong', 'x-forwarded-for': forwardedFor }
  const socket = new WebSocket(url.replace('http:', 'ws:') + nodesPath, { headers })
  socket.on('error', () => {})
  const [request, response] = await once(socket, 'unexpected-response')
  request.destroy()
  return response.statusCode
}

test('behind a trusted proxy wrong tokens are counted by client, and no client can impersonate another', async () => {
  await using stage = await serving({ ...caps, trustedProxies: ['127.0.0.0/8'] })
  assert.equal((await guess(stage, '203.0.113.7')).status, 401)
  assert.equal((await guess(stage, '203.0.113.7')).status, 429)
  assert.equal((await guess(stage, '6.6.6.6, 203.0.113.7')).status, 429)
  assert.equal((await guess(stage, '203.0.113.7, 203.0.113.8')).status, 401)
  assert.equal(await knock(stage, '203.0.113.7'), 429)
  assert.equal(await knock(stage, '203.0.113.9'), 401)
  assert.equal(await knock(stage, '::ffff:203.0.113.9'), 429)
})

test('without trusted proxies the header is ignored', async () => {
  for (const trustedProxies of [[], ['10.0.0.0/8']]) {
    await using stage = await serving({ ...caps, trustedProxies })
    assert.equal((await guess(stage, '203.0.113.7')).status, 401)
    assert.equal((await guess(stage, '203.0.113.8')).status, 429)
    assert.equal(await knock(stage, '203.0.113.9'), 429)
  }
})

test('the log has the address of the client', async () => {
  const destination = new PassThrough()
  await using log = createLog({ destination })
  await using stage = await serving({ log, trustedProxies: ['127.0.0.1'] })
  await stage.ask('GET', '/v1/queues', { headers: { 'x-forwarded-for': '6.6.6.6, 2001:db8::7' } })
  await stage.ask('GET', '/v1/queues')
  await log.flush()
  const lines = String(destination.read() ?? '').split('\n')
  const requests = lines.filter((line) => line.includes('"event":"request"')).map((line) => JSON.parse(line))
  assert.deepEqual(
    requests.map(({ address }) => address),
    ['2001:db8::7', '127.0.0.1'],
  )
})

test('an invalid address or range of a trusted proxy is refused at the start', async () => {
  await using stage = await serving()
  assert.throws(() => createServer({ box: stage.box, trustedProxies: ['10.0.0.0/33'] }), {
    code: 'invalid_argument',
    message: /^trustedProxies must be an address or a range .*not "10\.0\.0\.0\/33"\.$/,
  })
})
