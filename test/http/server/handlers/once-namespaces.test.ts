import assert from 'node:assert/strict'
import { type Box, open, SignalboxError } from 'signalbox'
import { createServer } from 'signalbox/server'
import { test } from 'vitest'
import { createTokens } from '../../../../src/access/index.ts'
import { type Stage, serving } from '../stage.ts'

/** Access to guards, separation of namespaces, and the answers while the store of guards is down. */

const as = (token: string) => ({ headers: { authorization: `Bearer ${token}` } })

async function tokenOf({ backend }: Box, scope: 'read' | 'work' | 'admin', namespace: string) {
  return (await createTokens({ store: backend.tokens }).create({ name: scope, scope, namespace })).secret
}

test('the read scope may list, work may claim, and only an operator may forget', async () => {
  await using stage = await serving()
  const [read, work, admin] = [
    await tokenOf(stage.box, 'read', 'default'),
    await tokenOf(stage.box, 'work', 'default'),
    await tokenOf(stage.box, 'admin', 'default'),
  ]
  const claim = (token: string) => stage.ask('POST', '/v1/once/claim', { body: { key: 'k' }, ...as(token) })
  const forget = (token: string) => stage.ask('POST', '/v1/once/forget', { body: { key: 'k' }, ...as(token) })
  const refused = await claim(read)
  assert.deepEqual([refused.status, refused.body.code], [403, 'forbidden'])
  assert.match(refused.body.detail, /needs the scope "work"/)
  assert.equal((await stage.ask('GET', '/v1/once', as(read))).body.items.length, 0)
  assert.equal((await claim(work)).status, 200)
  assert.deepEqual([(await forget(work)).status, (await forget(admin)).status], [403, 200])
  for (const path of ['/v1/once', '/v1/once/stats'])
    assert.deepEqual(
      [(await stage.ask('GET', path)).status, (await stage.ask('GET', path, as(read))).status],
      [401, 200],
    )
})

test("namespaces have their own keys, lists and counters, and a scrape shows only its caller's", async () => {
  await using stage = await serving()
  const [a, b] = [await tokenOf(stage.box, 'admin', 'a'), await tokenOf(stage.box, 'admin', 'b')]
  const everywhere = await tokenOf(stage.box, 'admin', '*')
  const claim = (token: string) => stage.ask('POST', '/v1/once/claim', { body: { key: 'k' }, ...as(token) })
  const one = await claim(a)
  const other = await claim(b)
  assert.deepEqual([one.body.status, other.body.status], ['run', 'run'])
  await claim(b)
  const stolen = { key: 'k', token: one.body.token }
  const { status } = await stage.ask('POST', '/v1/once/done', { body: stolen, ...as(b) })
  assert.equal(status, 409, 'a token counts in its namespace alone')
  await stage.ask('POST', '/v1/once/forget', { body: { key: 'k' }, ...as(b) })
  assert.equal((await stage.ask('GET', '/v1/once', as(a))).body.items.length, 1)
  const stats = async (token: string) => (await stage.ask('GET', '/v1/once/stats', as(token))).body
  assert.deepEqual([(await stats(a)).duplicate_events, (await stats(b)).duplicate_events], [0, 1])
  const { body: own } = await stage.ask('GET', '/metrics', as(a))
  assert.match(own, /signalbox_unique_events\{namespace="a"\} 1/)
  assert.doesNotMatch(own, /namespace="b"/)
  const { body: all } = await stage.ask('GET', '/metrics', as(everywhere))
  assert.match(all, /signalbox_duplicate_events\{namespace="b"\} 1/)
  assert.match(all, /signalbox_unique_events\{namespace="a"\} 1/)
})

/** A server whose guards are on a store that can be taken away. */
async function fragile(whenDown: 'open' | 'closed'): Promise<Stage & { readonly down: { isOn: boolean } }> {
  const box = await open('memory:', { once: { whenDown, timeoutMs: 500 } })
  const down = { isOn: false }
  const backend = new Proxy(box.backend, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name)
      if (name !== 'within') return typeof value === 'function' ? value.bind(target) : value
      return (namespace: string) => {
        const stores = target.within(namespace)
        const guards = new Proxy(stores.guards, {
          get(inner, verb) {
            const call: unknown = Reflect.get(inner, verb)
            if (typeof call !== 'function') return call
            return async (...args: unknown[]) => {
              if (down.isOn) throw new SignalboxError('store_unavailable', 'The store of guards is gone.')
              return Reflect.apply(call, inner, args)
            }
          },
        })
        return { ...stores, guards }
      }
    },
  })
  const server = createServer({ box: { backend, settings: box.settings }, port: 0 })
  const { url } = await server.listen()
  return {
    url,
    box,
    down,
    async ask(method, path, { body } = {}) {
      const init = body === undefined ? {} : { body: JSON.stringify(body) }
      const reply = await fetch(url + path, {
        method,
        headers: { 'content-type': 'application/json' },
        ...init,
      })
      const text = await reply.text()
      return {
        status: reply.status,
        headers: reply.headers,
        body: path === '/metrics' ? text : JSON.parse(text),
      }
    },
    async [Symbol.asyncDispose]() {
      down.isOn = false
      await server.close()
      await box.close()
    },
  }
}

test('with its store down an open guard answers run, a closed one running, each flagged and counted', async () => {
  for (const policy of ['open', 'closed'] as const) {
    await using stage = await fragile(policy)
    const post = (verb: string, body: unknown) => stage.ask('POST', `/v1/once/${verb}`, { body })
    const { body: before } = await post('claim', { key: 'before' })
    stage.down.isOn = true
    const claimed = await post('claim', { key: 'k' })
    const seen = await post('seen', { subject: ['a'], state: 1 })
    const many = await post('claim', { keys: ['a', 'b'] })
    assert.deepEqual([claimed.status, seen.status, many.status], [200, 200, 200])
    assert.deepEqual(
      [claimed.body.degraded, seen.body.degraded, many.body.items[1].degraded],
      [true, true, true],
    )
    assert.equal(seen.body.seen, policy === 'closed')
    assert.equal(claimed.body.status, policy === 'open' ? 'run' : 'running')
    let count = 4
    if (policy === 'open') {
      const ended = await post('done', { key: 'k', token: claimed.body.token, result: 1 })
      assert.deepEqual([ended.status, ended.body], [200, { done: true, degraded: true }])
      const { token } = claimed.body
      assert.equal((await post('renew', { key: 'k', token })).body.degraded, true)
      count += 2
    }
    const lost = await post('done', { key: 'before', token: before.token })
    assert.deepEqual([lost.status, lost.body.code], [503, 'store_unavailable'])
    assert.equal((await stage.ask('GET', '/v1/once')).status, 503)
    const venues = [{ venueId: 'v', state: 1 }]
    const report = { taskId: 't', source: 's', timeSlot: 't', observedAt: 1, venues }
    const unreported = await stage.ask('POST', '/v1/monitor/report', { body: report })
    assert.deepEqual([unreported.status, unreported.body.code], [503, 'store_unavailable'])
    const { body: stats } = await stage.ask('GET', '/v1/once/stats')
    assert.deepEqual([stats.degraded, stats.answers.degraded], [count, { [policy]: count }])
    const { body: metrics } = await stage.ask('GET', '/metrics')
    assert.ok(
      metrics.includes(`signalbox_once_degraded_total{namespace="default",policy="${policy}"} ${count}\n`),
    )
    stage.down.isOn = false
    assert.equal((await post('done', { key: 'before', token: before.token })).status, 200)
    assert.equal((await post('claim', { key: 'k' })).body.degraded, undefined)
  }
})
