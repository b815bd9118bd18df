import assert from 'node:assert/strict'
import { test } from 'vitest'
import { lingerMs } from '../../../../src/http/server/lingering-close.ts'
import { startNginx } from '../../../support/services/nginx.ts'
import { serving } from '../stage.ts'
import { sendMixes } from './campaign.ts'
import { RawConnection } from './raw-connection.ts'

const seed = Number(process.env.FUZZ_SEED ?? 1)

test('pipelined requests with and without Upgrade are each answered once and in order', {
  timeout: 120_000,
}, async () => {
  await using stage = await serving()
  const counts = await sendMixes(stage, { seed, mixes: 1_200 })
  console.log(`pipelining: seed ${seed}, ${JSON.stringify(counts)}`)
  assert.ok(counts.answers > 2_000 && counts.answers < counts.requests && counts.jobs > 500)
})

test('a pause of the server does not cost a client its connection', async () => {
  await using stage = await serving()
  const { host, port } = new URL(stage.url)
  using connection = new RawConnection(Number(port))
  const rest = 'x'.repeat(1_000)
  connection.send(`POST /nowhere HTTP/1.1\r\nHost: ${host}\r\nContent-Length: ${rest.length}\r\n\r\n`)
  const [early] = await connection.comes(1)
  assert.equal(early?.status, 404)
  // The rest of the body and the next request are in the kernel while this process stands still.
  connection.send(`${rest}GET /livez HTTP/1.1\r\nHost: ${host}\r\n\r\n`)
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, lingerMs + 200)
  const answers = await connection.comes(2)
  assert.deepEqual(
    answers.map(({ status }) => status),
    [404, 200],
  )
})

for (const buffersRequests of [true, false])
  test(`pipelining also works behind nginx that ${buffersRequests ? 'buffers' : 'does not buffer'} requests`, {
    // It may have to be installed first.
    timeout: 420_000,
  }, async () => {
    await using stage = await serving()
    const upstreamPort = Number(new URL(stage.url).port)
    await using nginx = await startNginx({ upstreamPort, buffersRequests })
    const front = buffersRequests ? 'buffering proxy' : 'streaming proxy'
    const counts = await sendMixes(stage, { seed, mixes: 400, port: nginx.port, front })
    console.log(`pipelining behind nginx: seed ${seed}, ${JSON.stringify(counts)}`)
    assert.ok(counts.answers > 1_000 && counts.jobs > 200)
  })
