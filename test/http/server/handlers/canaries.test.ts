import assert from 'node:assert/strict'
import { open } from 'signalbox'
import { createLog, createServer } from 'signalbox/server'
import { test } from 'vitest'

/**
 * Secrets are planted in every input, and then searched for in every output: the log, the metrics, the health checks and
 * the error responses.
 */
const canary = 'Canary7Canary7Canary7Canary7Canary7Canary7x'
const token = `sbx_01k9z3v8qe0m4t9wq3rb5c7xkd_${canary}`
const bootstrap = `bootstrap-${canary}`
const dsn = `postgres://app:${canary}@db.internal:5432/app`

async function stage() {
  const box = await open('memory:')
  const trouble = { isOn: false }
  /** A store that fails as drivers do: with everything they know in their messages. */
  const fail = () => {
    const cause = Object.assign(new Error(`password authentication failed for ${dsn}`), {
      dsn,
      password: canary,
    })
    throw new Error(`could not connect to ${dsn}`, { cause })
  }
  const backend = new Proxy(box.backend, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name)
      if (trouble.isOn && typeof value === 'function') return fail
      if (name !== 'within') return typeof value === 'function' ? value.bind(target) : value
      return (namespace: string) => {
        const stores = target.within(namespace)
        return {
          ...stores,
          jobs: new Proxy(stores.jobs, {
            get: (jobs, verb) => {
              const call: unknown = Reflect.get(jobs, verb)
              if (typeof call !== 'function') return call
              return (...args: unknown[]) => (trouble.isOn ? fail() : Reflect.apply(call, jobs, args))
            },
          }),
        }
      }
    },
  })
  let logged = ''
  const destination = {
    write(text: string, taken: () => void) {
      logged += text
      taken()
    },
  }
  const log = createLog({ destination, level: 'debug' })
  const server = createServer({ box: { backend }, port: 0, log, bootstrap: [bootstrap] })
  const { url } = await server.listen()
  return {
    url,
    trouble,
    async logged() {
      await log.flush()
      return logged
    },
    async [Symbol.asyncDispose]() {
      trouble.isOn = false
      await server.close()
      await box.close()
    },
  }
}

const right = { authorization: `Bearer ${bootstrap}` }

/** Every way in which a secret may reach a server. */
function requests(url: string): readonly [string, RequestInit][] {
  const json = { ...right, 'content-type': 'application/json' }
  const post = (body: unknown, headers: Record<string, string> = json): RequestInit => ({
    method: 'POST',
    headers,
    body: typeof body === 'string' ? body : JSON.stringify(body),
  })
  return [
    [`${url}/v1/jobs`, { headers: { authorization: `Bearer ${token}` } }],
    [`${url}/v1/jobs`, { headers: { authorization: `Basic ${btoa(canary)}`, cookie: `session=${canary}` } }],
    [`${url}/v1/jobs`, { headers: { authorization: canary } }],
    [`${url}/v1/jobs`, { headers: { ...right, 'x-request-id': token, cookie: `session=${canary}` } }],
    [`${url}/v1/jobs`, { headers: { ...right, 'proxy-authorization': token, 'x-api-key': canary } }],
    [`${url}/v1/jobs?access_token=${canary}`, { headers: right }],
    [`${url}/v1/jobs?cursor=${canary}&limit=1`, { headers: right }],
    [`${url}/nope?token=${token}`, { headers: right }],
    [`${url}/v1/jobs`, post({ kind: 'mail', payload: { password: canary, url: dsn } })],
    [`${url}/v1/jobs`, post({ kind: 1, payload: { password: canary } })],
    [`${url}/v1/jobs`, post(`{"kind": "mail", "payload": {"password": "${canary}"`)],
    [`${url}/v1/jobs`, post({ kind: 'mail', payload: canary }, { ...json, 'idempotency-key': canary })],
    [`${url}/v1/jobs/claim`, post({ waitMs: 1, workerId: 'w' })],
    [`${url}/v1/jobs/none/ack`, post({ token: canary, result: { secret: canary } })],
    [`${url}/v1/jobs/none/nack`, post({ token: canary, error: `cannot connect to ${dsn}` })],
    [`${url}/v1/tokens`, post({ name: 'canaries', scope: 'read' })],
    [`${url}/readyz`, {}],
    [`${url}/metrics`, { headers: right }],
  ]
}

function assertSilent(where: string, text: string): void {
  for (const trace of [canary, canary.slice(0, 20), btoa(canary), bootstrap])
    assert.ok(!text.includes(trace), `${where} says nothing of ${trace}: ${text.slice(0, 1_000)}`)
}

test('no secret in a request appears in an error, in the log or in the metrics', async () => {
  await using served = await stage()
  const secrets: string[] = []
  for (const isOn of [false, true]) {
    served.trouble.isOn = isOn
    for (const [target, request] of requests(served.url)) {
      const reply = await fetch(target, request)
      const text = await reply.text()
      const { secret } = (reply.status === 201 ? JSON.parse(text) : {}) as { secret?: string }
      if (secret !== undefined) secrets.push(secret)
      if (reply.status >= 400 || /readyz|metrics/.test(target))
        assertSilent(`${target} ${reply.status}`, text)
      for (const [name, value] of reply.headers) assertSilent(name, value)
    }
  }
  served.trouble.isOn = false
  const logged = await served.logged()
  assertSilent('the log', logged)
  assert.ok(secrets.length > 0)
  for (const secret of secrets) assert.ok(!logged.includes(secret), 'nor is a new secret logged')
  assert.match(logged, /request\.failed/, 'what failed is in it')
  assert.match(logged, /canaries\.test\.ts/, 'with its stack')
})

test('a secret in a path is kept out of the log, however it is encoded', async () => {
  await using served = await stage()
  const spelt = [...token].map((unit) => `%${unit.charCodeAt(0).toString(16)}`).join('')
  for (const path of [`/v1/jobs/${token}`, `/v1/jobs/${spelt}`, `/${token}`, `/v1/${spelt}/x`]) {
    await fetch(served.url + path, { headers: right })
  }
  const logged = await served.logged()
  assertSilent('the log', logged)
  assert.ok(!logged.includes(spelt.slice(-30)))
  assert.equal(logged.split('\n').length - 1, 4, 'each request is one line')
})

test("names that would forge a log line or move a terminal's cursor are one inert line", async () => {
  await using served = await stage()
  const nasty = '\u001b[2J\u2028\u202e"}{"level":"error"'
  const path = `/v1/jobs/${encodeURIComponent(nasty)}`
  await fetch(served.url + path, { headers: { ...right, 'x-request-id': 'a\u0085b' } })
  const lines = (await served.logged()).split('\n').slice(0, -1)
  assert.equal(lines.length, 1)
  assert.doesNotMatch(lines[0]!, /[\p{Cc}\u2028\u202e]/u)
  assert.match((JSON.parse(lines[0]!) as { requestId: string }).requestId, /^[0-9a-z]{26}$/)
})
