import assert from 'node:assert/strict'
import { test } from 'vitest'
import { RawClient } from '../fuzz/raw-client.ts'
import { serving } from '../stage.ts'

const bootstrap = 'bootstrap-secret-of-32-characters'

test('a wrong token of any length up to 10,000 gets 401, also a nearly correct one', {
  timeout: 60_000,
}, async () => {
  await using stage = await serving({ bootstrap: [bootstrap], maxFailuresPerAddress: 100_000 })
  const made = await stage.ask('POST', '/v1/tokens', {
    body: { name: 'ops', scope: 'admin' },
    headers: { authorization: `Bearer ${bootstrap}` },
  })
  const { secret } = made.body as { secret: string }
  const { port, host } = new URL(stage.url)
  using client = new RawClient(Number(port))
  const statusOf = async (authorization: string) => {
    const head = `GET /v1/queues HTTP/1.1\r\nHost: ${host}\r\nAuthorization: ${authorization}\r\n\r\n`
    const reply = await client.ask(Buffer.from(head, 'latin1'))
    assert.notEqual(reply, 'closed')
    return (reply as { status: number }).status
  }
  assert.equal(await statusOf(`Bearer ${secret}`), 200)
  for (let length = 0; length <= 10_000; length++)
    assert.equal(await statusOf(`Bearer ${'x'.repeat(length)}`), 401, `${length} characters`)
  const lengths = [...Array.from({ length: 200 }, (_, i) => i), 255, 256, 257, 1_000, 4_096, 9_999, 10_000]
  for (const length of lengths) {
    for (const wrong of [
      `sbx_${'0'.repeat(length)}`,
      (secret + secret.repeat(200)).slice(0, length),
      `${'\u00ff'.repeat(length)}`,
    ]) {
      if (wrong !== secret) assert.equal(await statusOf(`Bearer ${wrong}`), 401, wrong.slice(0, 80))
    }
  }
  for (let at = 0; at < secret.length; at++) {
    const letter = secret[at] === 'A' ? 'B' : 'A'
    assert.equal(await statusOf(`Bearer ${secret.slice(0, at)}${letter}${secret.slice(at + 1)}`), 401)
  }
  assert.equal(await statusOf(`Bearer ${secret}`), 200, 'the right one is still right')
})

test('a worker cannot end, renew or fail a job that another worker holds', async () => {
  await using stage = await serving({ bootstrap: [bootstrap] })
  const tokenFor = async (name: string) => {
    const headers = { authorization: `Bearer ${bootstrap}` }
    const { body } = await stage.ask('POST', '/v1/tokens', { body: { name, scope: 'work' }, headers })
    return { authorization: `Bearer ${body.secret}` }
  }
  const [mine, theirs] = [await tokenFor('a'), await tokenFor('b')]
  for (const kind of ['one', 'two']) await stage.ask('POST', '/v1/jobs', { body: { kind }, headers: mine })
  const claim = async (headers: Record<string, string>) =>
    (await stage.ask('POST', '/v1/jobs/claim', { body: {}, headers })).body.items[0]
  const [held, other] = [await claim(mine), await claim(theirs)]
  for (const verb of ['ack', 'nack', 'renew']) {
    // A token of another job, half of the right one, and malformed ones.
    for (const token of [other.token, held.token.slice(0, -1), `${held.token}0`, 'x']) {
      const { status, body } = await stage.ask('POST', `/v1/jobs/${held.id}/${verb}`, {
        body: { token },
        headers: theirs,
      })
      assert.deepEqual([status, body.code], [409, 'lease_lost'], `${verb} with ${token}`)
    }
  }
  assert.equal((await stage.ask('GET', `/v1/jobs/${held.id}`, { headers: mine })).body.state, 'running')
  const ack = { body: { token: held.token }, headers: mine }
  assert.equal((await stage.ask('POST', `/v1/jobs/${held.id}/ack`, ack)).status, 200)
})
