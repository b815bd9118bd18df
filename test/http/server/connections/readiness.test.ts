import assert from 'node:assert/strict'
import { type Box, open } from 'signalbox'
import { createServer } from 'signalbox/server'
import { test } from 'vitest'

/** A server on a store that can be made to fail, or to answer no more. */
async function stage() {
  const box: Box = await open('memory:')
  const store: { mode: 'well' | 'fails' | 'hangs'; pings: number } = { mode: 'well', pings: 0 }
  const backend = new Proxy(box.backend, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name)
      if (name !== 'ping') return typeof value === 'function' ? value.bind(target) : value
      return () => {
        store.pings++
        if (store.mode === 'fails') return Promise.reject(new Error('connect ECONNREFUSED 10.1.2.3:5432'))
        return store.mode === 'hangs' ? new Promise(() => {}) : target.ping()
      }
    },
  })
  const server = createServer({ box: { backend }, port: 0 })
  const { url } = await server.listen()
  return {
    store,
    url,
    async [Symbol.asyncDispose]() {
      await server.close()
      await box.close()
    },
  }
}

interface Readiness {
  readonly status: string
  readonly checks: readonly { readonly name: string; readonly ok: boolean; readonly detail?: string }[]
}

async function ask(
  url: string,
): Promise<{ status: number; type: string | null; body: Readiness; text: string }> {
  const reply = await fetch(`${url}/readyz`)
  const text = await reply.text()
  return { status: reply.status, type: reply.headers.get('content-type'), body: JSON.parse(text), text }
}

/** Asks as a probe does, until the answer is this one; says how long that took. */
async function untilStatus(url: string, status: number): Promise<number> {
  const begun = performance.now()
  while ((await ask(url)).status !== status) {
    assert.ok(performance.now() - begun < 15_000, `it was ${status} within 15 s`)
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
  return performance.now() - begun
}

test('a server whose store is away listens, gives the reason, and is ready again later', async () => {
  await using served = await stage()
  const { url, store } = served
  assert.equal((await ask(url)).status, 200)

  store.mode = 'fails'
  await untilStatus(url, 503)
  const { type, body, text } = await ask(url)
  assert.match(type!, /^application\/json/)
  assert.equal(body.status, 'unready')
  assert.deepEqual(
    body.checks.filter(({ ok }) => !ok).map(({ name }) => name),
    ['store', 'schema'],
  )
  assert.doesNotMatch(text, /10\.1\.2\.3|ECONNREFUSED/)
  assert.equal((await fetch(`${url}/livez`)).status, 200)
  const metrics = await (await fetch(`${url}/metrics`)).text()
  assert.match(metrics, /^signalbox_store_up 0$/m)

  store.mode = 'well'
  assert.ok((await untilStatus(url, 200)) < 10_000)
  assert.match(await (await fetch(`${url}/metrics`)).text(), /^signalbox_store_up 1$/m)
})

test('a server notices a silent store within seconds, and not every request asks it', async () => {
  await using served = await stage()
  const { url, store } = served
  store.mode = 'hangs'
  const begun = performance.now()
  const answers = await Promise.all(Array.from({ length: 50 }, () => ask(url)))
  assert.ok(performance.now() - begun < 6_000)
  for (const { status, body } of answers) {
    assert.equal(status, 503)
    assert.match(body.checks[0]!.detail!, /^timeout: /)
  }
  assert.equal(store.pings, 1)
  store.mode = 'well'
  assert.ok((await untilStatus(url, 200)) < 10_000)
})
