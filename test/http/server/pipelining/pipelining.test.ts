import assert from 'node:assert/strict'
import { test } from 'vitest'
import { startNginx } from '../../../support/services/nginx.ts'
import { serving } from '../stage.ts'
import { sendMixes } from './campaign.ts'

const seed = Number(process.env.FUZZ_SEED ?? 1)

test('pipelined requests with and without Upgrade are each answered once and in order', {
  timeout: 120_000,
}, async () => {
  await using stage = await serving()
  const counts = await sendMixes(stage, { seed, mixes: 1_200 })
  console.log(`pipelining: seed ${seed}, ${JSON.stringify(counts)}`)
  assert.ok(counts.answers > 2_000 && counts.answers < counts.requests && counts.jobs > 500)
})

for (const buffersRequests of [true, false])
  test(`the same holds behind nginx that ${buffersRequests ? 'buffers' : 'does not buffer'} requests`, {
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
