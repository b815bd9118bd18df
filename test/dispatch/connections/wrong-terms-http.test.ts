import assert from 'node:assert/strict'
import { open } from 'signalbox'
import { test } from 'vitest'
import { serving } from '../../http/server/stage.ts'

test('an invalid term gets the same explanation from the library, over HTTP and in a remote box', async () => {
  await using stage = await serving()
  await using remote = await open(stage.url as 'http://x')
  const wrong = [
    'gpu',
    { lable: 'gpu' },
    { label: 'gpu', eq: 1 },
    { label: 'a', service: 'b' },
    { label: 'gb', gte: '40' },
    { label: 'zone', in: [] },
    { label: 'zone', in: 'eu' },
    { any: [] },
    { any: [{ label: 'a' }, { label: 'b', lte: 'x' }] },
    { not: { any: [{ service: 'a', tags: {} }] } },
    { any: [{ any: [{ not: { any: [{ label: 'a' }] } }] }] },
  ]
  const refusal = (asked: Promise<unknown>) =>
    asked.then(
      () => 'taken',
      ({ code, message }) => `${code}: ${message.replace(/^(submit|definePool)\./, '')}`,
    )
  for (const term of wrong) {
    const submitted = { service: 'nmt', payload: 1, requires: [term] } as never
    const reported = await refusal(stage.box.dispatch.submit(submitted))
    assert.match(reported, /^invalid_argument: requires\[0\]/)
    assert.equal(await refusal(remote.dispatch.submit(submitted)), reported)
    const pool = { name: 'large', requires: [term] } as never
    assert.equal(await refusal(remote.dispatch.definePool(pool)), reported)
    const { status, body } = await stage.ask('POST', '/v1/tasks', { body: submitted })
    assert.deepEqual([status, `${body.code}: ${body.detail.replace(/^submit\./, '')}`], [400, reported])
  }
})
