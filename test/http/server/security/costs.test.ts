import assert from 'node:assert/strict'
import { test } from 'vitest'
import { mounted, serving } from '../stage.ts'

/** The shortest time of up to twenty tries. It stops at the first one within the limit: the machine may be busy for a while. */
async function quickest(limitMs: number, act: () => Promise<unknown>): Promise<number> {
  let least = Number.POSITIVE_INFINITY
  for (let tries = 0; tries < 20 && least > limitMs; tries++) {
    const at = performance.now()
    await act()
    least = Math.min(least, performance.now() - at)
  }
  return least
}

test('invalid numbers are refused at once, however they are written', async () => {
  await using stage = await serving()
  const numbers = ['1000000000', '-1', '0', 'NaN', 'Infinity', '1e9', '1e309', '0x10', '1.5', '', ' 5', '501']
  const huge = '9'.repeat(4_000)
  for (const path of ['/v1/jobs?limit=', '/v1/tokens?limit=']) {
    for (const number of [...numbers, huge]) {
      const ask = async () => {
        const { status, body } = await stage.ask('GET', path + encodeURIComponent(number))
        assert.deepEqual([status, body.code], [400, 'invalid_argument'], path + number.slice(0, 40))
      }
      const ms = await quickest(50, ask)
      assert.ok(ms <= 50, `${path}${number.slice(0, 40)} took ${ms} ms`)
    }
  }
  for (const query of ['days=1000000000', 'page=-1', 'offset=5', 'sort=kind', 'refresh=0'])
    assert.equal((await stage.ask('GET', `/v1/jobs?${query}`)).status, 400, query)
})

test('no text of 50 KB slows a pattern down, in any field', async () => {
  await using stage = await mounted()
  const long = 50_000
  const nasty = [
    'a'.repeat(long),
    `${'9'.repeat(long)}x`,
    `${'1.'.repeat(long / 2)}s`,
    `${' '.repeat(long)}!`,
    `${'%41'.repeat(long / 3)}`,
    `${'a-'.repeat(long / 2)}\u0001`,
    `${'\\'.repeat(long)}"`,
    `${'((((a+)+)+)+)+'.repeat(long / 14)}$`,
    `Bearer ${'sbx_'.repeat(long / 4)}`,
    `${'postgres://u:'.repeat(long / 13)}@`,
    `${'\ud83d\ude00'.repeat(long / 4)}`,
  ]
  const ascii = (text: string) => text.replace(/[^\x20-\x7e]/g, '.').trim()
  for (const text of nasty) {
    const at = encodeURIComponent(text)
    const asks: Record<string, () => Promise<unknown>> = {
      kind: () => stage.ask('POST', '/v1/jobs', { body: { kind: text } }),
      span: () => stage.ask('POST', '/v1/jobs', { body: { kind: 'a', delayMs: text } }),
      token: () => stage.ask('POST', '/v1/jobs/x/ack', { body: { token: text } }),
      error: () => stage.ask('POST', '/v1/jobs/x/nack', { body: { token: 'x', error: text } }),
      path: () => stage.ask('GET', `/v1/jobs/${at}`),
      nowhere: () => stage.ask('GET', `/${at}`),
      query: () => stage.ask('GET', `/v1/jobs?cursor=${at}`),
      'unknown query': () => stage.ask('GET', `/v1/jobs?${at}`),
      'unknown field': () => stage.ask('POST', '/v1/jobs', { body: { kind: 'a', [text]: 1 } }),
      namespace: () => stage.ask('GET', '/v1/queues', { headers: { 'signalbox-namespace': ascii(text) } }),
      authorization: () => stage.ask('GET', '/v1/queues', { headers: { authorization: ascii(text) } }),
      key: () =>
        stage.ask('POST', '/v1/jobs', { body: { kind: 'a' }, headers: { 'idempotency-key': ascii(text) } }),
      'request id': () => stage.ask('GET', '/livez', { headers: { 'x-request-id': ascii(text) } }),
      type: () => stage.ask('POST', '/v1/jobs', { body: '{}', headers: { 'content-type': ascii(text) } }),
    }
    for (const [where, ask] of Object.entries(asks)) {
      // Of what the longest takes, most is the making of the request by this test.
      const ms = await quickest(100, ask)
      // Ten times what is promised: a pattern that is not linear takes seconds.
      assert.ok(ms <= 100, `${where}: ${ms.toFixed(1)} ms for ${text.slice(0, 20)}…`)
    }
  }
})

test('a kind that looks like a prototype or a file name is stored like any other', async () => {
  await using stage = await serving()
  const kinds = [
    'constructor',
    '__proto__',
    'toString',
    '../x',
    'file:///etc/passwd',
    'node:fs',
    'data:text/javascript,1',
  ]
  for (const kind of kinds) {
    assert.equal((await stage.ask('POST', '/v1/jobs', { body: { kind } })).status, 201)
    const { items } = (await stage.ask('POST', '/v1/jobs/claim', { body: { kinds: [kind] } })).body
    assert.deepEqual(
      items.map((job: { kind: string }) => job.kind),
      [kind],
    )
  }
  assert.equal(({} as { x?: unknown }).x, undefined)
  assert.equal((await stage.ask('GET', '/metrics')).status, 200)
})
