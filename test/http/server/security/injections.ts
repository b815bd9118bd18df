import assert from 'node:assert/strict'
import type { Box } from 'signalbox'
import { createServer } from 'signalbox/server'

/** The first attempts of attackers who look for holes in SQL, shells, templates and Redis. */
export const injections: readonly string[] = [
  "'",
  '"',
  '`',
  '\\',
  "\\'",
  "' OR '1'='1",
  "' OR 1=1 -- ",
  '" OR ""="',
  "') OR ('a'='a",
  "1' AND SLEEP(2) -- ",
  "1' AND pg_sleep(2) -- ",
  "'; DROP TABLE job_queue; --",
  '"; DROP TABLE signalbox.job_queue CASCADE; --',
  "x'; UPDATE job_queue SET priority = 99; --",
  "' UNION SELECT name, sql FROM sqlite_master --",
  "' UNION ALL SELECT NULL,NULL,NULL,version() -- -",
  "'||(SELECT current_user)||'",
  '$$; SELECT 1; $$',
  '$1',
  ':queue',
  '?1',
  '%s%n%x',
  '%27%20OR%201%3D1',
  '/*!50000 OR 1=1*/',
  "admin'/*",
  'a;b|c&&d$(id)`id`',
  '{{7*7}}#{7*7}<%= 7*7 %>',
  '../../etc/passwd',
  '{"$gt":""}',
  '*) KEYS *',
  '_%',
  "N'x' COLLATE utf8mb4_bin",
  '\u02bc OR 1=1',
  "¿' OR 1=1",
  "縗' OR 1=1 -- ",
]

/** Every text that a route takes is tried with each of them; all are only text, so what comes back is what went in. */
export async function assertOnlyText(box: Pick<Box, 'backend'>): Promise<void> {
  await using server = createServer({ box, port: 0, maxFailuresPerAddress: 10_000 })
  const { url } = await server.listen()
  const ask = async (method: string, path: string, body?: unknown, more: Record<string, string> = {}) => {
    const headers = { ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...more }
    const sent = body === undefined ? null : JSON.stringify(body)
    const reply = await fetch(url + path, { method, headers, body: sent })
    const read = JSON.parse(await reply.text())
    assert.ok(reply.status < 500, `${method} ${path} ${sent}: ${reply.status} ${JSON.stringify(read)}`)
    return { status: reply.status, body: read }
  }
  const bystander = (await ask('POST', '/v1/jobs', { kind: 'bystander', queue: 'apart' })).body.id

  for (const [index, text] of injections.entries()) {
    const at = encodeURIComponent(text)
    const key = { 'idempotency-key': text.replace(/[^\x21-\x7e]/g, '.') }
    const job = { kind: text, queue: text, payload: { [text]: text }, uniqueKey: text, maxAttempts: 1 }
    const { status, body: added } = await ask('POST', '/v1/jobs', job, key)
    assert.equal(status, 201, text)
    assert.deepEqual((await ask('POST', '/v1/jobs', job, key)).body, added, 'the key is found again')
    assert.equal((await ask('POST', '/v1/jobs', job)).body.duplicate, true, 'and so is what is unique')

    const listed = await ask('GET', `/v1/jobs?queue=${at}&kind=${at}`)
    assert.deepEqual(
      listed.body.items.map((one: { id: string }) => one.id),
      [added.id],
      text,
    )
    assert.equal((await ask('GET', `/v1/jobs/${at}`)).status, 404)
    await ask('GET', `/v1/jobs?cursor=${at}`)
    for (const verb of ['pause', 'wake', 'resume'])
      assert.equal((await ask('POST', `/v1/queues/${at}/${verb}`)).body.queue, text)

    const claim = { queues: [text], kinds: [text], workerId: text }
    const { items } = (await ask('POST', '/v1/jobs/claim', claim)).body
    assert.equal(items.length, 1, text)
    const [held] = items
    assert.deepEqual(
      [held.id, held.kind, held.queue, held.payload],
      [added.id, text, text, { [text]: text }],
      'what comes out is what went in',
    )
    for (const verb of ['ack', 'nack', 'renew'])
      assert.equal((await ask('POST', `/v1/jobs/${held.id}/${verb}`, { token: text })).status, 409, text)
    await ask('POST', '/v1/jobs/held', { items: [{ id: text, token: text }] })
    const nack = { token: held.token, error: text, dead: true }
    assert.equal((await ask('POST', `/v1/jobs/${held.id}/nack`, nack)).body.state, 'dead')
    await ask('POST', '/v1/jobs/retry-dead', { queue: text, kind: text })

    const namespace = { 'signalbox-namespace': encodeURIComponent(text) }
    assert.deepEqual((await ask('GET', '/v1/queues', undefined, namespace)).body.items, [])
    assert.equal((await ask('DELETE', `/v1/tokens/${at}`)).status, 404)
    const bearer = text.replace(/[^\x21-\x7e]/g, '.')
    const asToken = { authorization: `Bearer sbx_${bearer}_${bearer}` }
    assert.equal((await ask('GET', '/v1/queues', undefined, asToken)).status, 401)

    const { items: queues } = (await ask('GET', '/v1/queues')).body
    assert.equal(queues.length, index + 2, 'no queue but those that were named')
  }
  const spared = (await ask('GET', `/v1/jobs/${bystander}`)).body
  assert.deepEqual([spared.state, spared.attempt, spared.priority], ['ready', 0, 0])

  // After the first token the server requires one, also for making the next.
  let admin: Record<string, string> = {}
  for (const name of injections) {
    const { status, body } = await ask('POST', '/v1/tokens', { name, scope: 'admin', namespace: '*' }, admin)
    assert.equal(status, 201, name)
    admin = { authorization: `Bearer ${body.secret}` }
  }
  const { items: tokens } = (await ask('GET', '/v1/tokens?limit=500', undefined, admin)).body
  const names = tokens.map(({ name }: { name: string }) => name)
  assert.deepEqual(new Set(names), new Set(injections))
}
