import assert from 'node:assert/strict'
import { open } from 'signalbox'
import { createClient } from 'signalbox/client'
import { createLog, createServer } from 'signalbox/server'
import { test } from 'vitest'
import { createTokens } from '../../../../src/access/index.ts'
import type { AuditEntry, AuditStore } from '../../../../src/audit/index.ts'
import { type Stage, serving } from '../stage.ts'

/** The audit records operators' actions over HTTP, with actor, target and outcome. */

const key = { operation: 'deploy', resource: 'web' }

async function signedIn(stage: Stage, scope: 'read' | 'work' | 'admin' = 'admin', namespace = 'default') {
  const tokens = createTokens({ store: stage.box.backend.tokens })
  const token = await tokens.create({ name: 'Ada’s laptop', scope, namespace })
  const headers = { authorization: `Bearer ${token.secret}` }
  const ask = (method: string, path: string, body?: unknown, more: Record<string, string> = {}) =>
    stage.ask(method, path, { body, headers: { ...headers, ...more } })
  const audit = async (query = '') => {
    const reply = await ask('GET', `/v1/audit${query}`)
    assert.equal(reply.status, 200, JSON.stringify(reply.body))
    return reply.body as { items: AuditEntry[]; cursor: string | null }
  }
  return { token, ask, audit }
}

/** The newest entry, without what differs from run to run. */
function reported({ action, target, outcome, code }: AuditEntry) {
  return { action, target, outcome, code }
}

test('each action of an operator is recorded with its actor, target and outcome', async () => {
  await using stage = await serving()
  const { token, ask, audit } = await signedIn(stage)
  const { jobs, locks, once, monitor } = stage.box
  await locks.acquire({ ...key, node: 'ci-1' })
  await once.claim('invoice-1')
  const [waiting, dead] = [
    await jobs.add('mail', {}),
    await jobs.add('mail', {}, { queue: 'q', maxAttempts: 1 }),
  ]
  const kill = async () => {
    const [claimed] = await jobs.claim({ queues: ['q'] })
    await jobs.nack(claimed!, { dead: true })
  }
  await kill()
  let subscriptionId = ''
  let silenceId = ''
  let tokenId = ''

  const acts: readonly (readonly [() => Promise<{ status: number; body: unknown }>, () => object])[] = [
    [
      () => ask('POST', '/v1/locks/evict', { ...key, node: 'ci-1' }),
      () => ({ action: 'lock.evict', target: { ...key, node: 'ci-1' } }),
    ],
    [
      () => ask('POST', '/v1/queues/mail/pause'),
      () => ({ action: 'queue.pause', target: { queue: 'mail' } }),
    ],
    [
      () => ask('POST', '/v1/queues/mail/resume'),
      () => ({ action: 'queue.resume', target: { queue: 'mail' } }),
    ],
    [
      () => ask('POST', `/v1/jobs/${waiting.id}/cancel`),
      () => ({ action: 'job.cancel', target: { jobId: waiting.id } }),
    ],
    [
      () => ask('POST', `/v1/jobs/${dead.id}/retry`),
      () => ({ action: 'job.retry', target: { jobId: dead.id } }),
    ],
    [
      async () => {
        await kill()
        return ask('POST', '/v1/jobs/retry-dead', { queue: 'q' })
      },
      () => ({ action: 'jobs.retryDead', target: { queue: 'q', retried: 1 } }),
    ],
    [
      () => ask('POST', '/v1/jobs/prune', { olderThanMs: '7d' }),
      () => ({ action: 'jobs.prune', target: { olderThanMs: '7d', pruned: 0 } }),
    ],
    [
      () => ask('POST', '/v1/jobs/remove', { ids: ['unknown'] }),
      () => ({ action: 'jobs.remove', target: { count: 1, jobId: 'unknown', removed: 0 } }),
    ],
    [
      () => ask('POST', '/v1/once/forget', { key: 'invoice-1' }),
      () => ({ action: 'guard.forget', target: { key: 'invoice-1' } }),
    ],
    [
      async () => {
        const reply = await ask('POST', '/v1/tokens', {
          ...{ name: 'ci', scope: 'work', nodes: ['gpu-7', 'gpu-8'], expiresInMs: '1h' },
        })
        tokenId = reply.body.id
        return reply
      },
      () => ({
        action: 'token.create',
        target: {
          ...{ tokenId, name: 'ci', scope: 'work', nodes: 'gpu-7, gpu-8' },
          ...{ namespace: 'default', expiresInMs: '1h' },
        },
      }),
    ],
    [
      () => ask('DELETE', `/v1/tokens/${tokenId}`),
      () => ({ action: 'token.revoke', target: { tokenId, name: 'ci', namespace: 'default' } }),
    ],
    [
      async () => {
        const channel = { type: 'webhook', url: 'https://hooks.example/abc', secret: 'x'.repeat(40) }
        const reply = await ask('POST', '/v1/monitor/subscriptions', { name: 'ops', channel })
        subscriptionId = reply.body.id
        return reply
      },
      () => ({
        action: 'monitor.subscribe',
        target: { subscriptionId, name: 'ops', channel: 'webhook' },
      }),
    ],
    [
      () => ask('DELETE', `/v1/monitor/subscriptions/${subscriptionId}`),
      () => ({ action: 'monitor.unsubscribe', target: { subscriptionId } }),
    ],
    [
      async () => {
        const match = { source: 'courts' }
        const reply = await ask('POST', '/v1/monitor/silences', { match, forMs: '1h' })
        silenceId = reply.body.id
        return reply
      },
      () => ({
        action: 'monitor.silence',
        target: { silenceId, match: '{"source":"courts"}', forMs: '1h' },
      }),
    ],
    [
      () => ask('DELETE', `/v1/monitor/silences/${silenceId}`),
      () => ({ action: 'monitor.unsilence', target: { silenceId } }),
    ],
    [
      () => ask('POST', '/v1/monitor/test', { channel: { type: 'slack', url: 'https://127.0.0.1/x' } }),
      () => ({ action: 'monitor.test', target: { channel: 'slack' } }),
    ],
  ]
  const before = Date.now()
  for (const [act, expected] of acts) {
    const { status, body } = await act()
    assert.ok(status < 300, `${status} ${JSON.stringify(body)}`)
    const { items } = await audit('?limit=1')
    assert.deepEqual(reported(items[0]!), { ...expected(), outcome: 'done', code: null })
    assert.deepEqual(items[0]!.actor, { id: token.id, name: 'Ada’s laptop' })
    assert.ok(items[0]!.at >= before && items[0]!.at <= Date.now())
  }
  assert.equal((await audit()).items.length, acts.length, 'each once, and nothing else')
  assert.deepEqual(await monitor.subscriptions(), [])
})

test('a refused action is recorded with its code', async () => {
  await using stage = await serving()
  const { ask, audit } = await signedIn(stage, 'admin', 'shop')
  const refused = async (act: ReturnType<typeof ask>, status: number) => {
    assert.equal((await act).status, status)
    return reported((await audit('?limit=1')).items[0]!)
  }
  assert.deepEqual(await refused(ask('POST', '/v1/locks/evict', { ...key, node: 'unknown' }), 404), {
    action: 'lock.evict',
    target: { ...key, node: 'unknown' },
    outcome: 'refused',
    code: 'not_found',
  })
  assert.deepEqual(await refused(ask('POST', '/v1/jobs/none/cancel'), 404), {
    action: 'job.cancel',
    target: { jobId: 'none' },
    outcome: 'refused',
    code: 'not_found',
  })
  const foreign = { name: 'mine', scope: 'admin', namespace: '*' }
  assert.deepEqual(await refused(ask('POST', '/v1/tokens', foreign), 403), {
    action: 'token.create',
    target: foreign,
    outcome: 'refused',
    code: 'forbidden',
  })
  assert.equal((await refused(ask('POST', `/v1/jobs/none/retry`), 404)).code, 'not_found')
  assert.equal(
    (await refused(ask('POST', '/v1/monitor/notifications/none/replay'), 404)).action,
    'monitor.replay',
  )
})

test('the audit skips work, and requests that never reached their handler', async () => {
  await using stage = await serving()
  const { ask, audit } = await signedIn(stage)
  const worker = await signedIn(stage, 'work')
  await ask('POST', '/v1/jobs', { kind: 'mail', payload: {} })
  const { body } = await ask('POST', '/v1/jobs/claim', { workerId: 'w' })
  await ask('POST', `/v1/jobs/${body.items[0].id}/ack`, { token: body.items[0].token })
  await ask('POST', '/v1/locks/acquire', { ...key, node: 'n' })
  await ask('POST', '/v1/locks/leave', { ...key, node: 'other' })
  await ask('POST', '/v1/once/claim', { key: 'k' })
  await ask('POST', '/v1/queues/mail/wake')
  assert.equal((await worker.ask('POST', '/v1/queues/mail/pause')).status, 403)
  assert.equal((await ask('POST', '/v1/jobs/prune', { olderThanMs: 'soon' })).status, 400)
  assert.deepEqual(await audit(), { items: [], cursor: null })
})

test('each namespace has its own audit, and only an admin may read it', async () => {
  await using stage = await serving()
  const shop = await signedIn(stage, 'admin', 'shop')
  const other = await signedIn(stage, 'admin', 'other')
  const every = await signedIn(stage, 'admin', '*')
  await shop.ask('POST', '/v1/queues/mail/pause')
  await every.ask('POST', '/v1/queues/post/pause', undefined, { 'signalbox-namespace': 'shop' })
  assert.deepEqual(
    (await shop.audit()).items.map(({ actor, target }) => [actor.id, target]),
    [
      [every.token.id, { queue: 'post' }],
      [shop.token.id, { queue: 'mail' }],
    ],
  )
  assert.deepEqual((await other.audit()).items, [])
  assert.deepEqual((await every.audit()).items, [], 'default is a namespace like any other')
  for (const scope of ['read', 'work'] as const) {
    const { ask } = await signedIn(stage, scope, 'shop')
    const reply = await ask('GET', '/v1/audit')
    assert.deepEqual([reply.status, reply.body.code], [403, 'forbidden'])
  }
  assert.equal((await stage.ask('GET', '/v1/audit')).status, 401)
})

test('the audit is read page by page, by action and by actor, also with the client', async () => {
  await using stage = await serving()
  const ada = await signedIn(stage)
  const eve = await signedIn(stage)
  for (const name of ['a', 'b', 'c']) await ada.ask('POST', `/v1/queues/${name}/pause`)
  await eve.ask('POST', '/v1/queues/a/resume')
  using client = createClient(stage.url, { token: ada.token.secret })
  const first = await client.audit.list({ limit: 2 })
  const rest = await client.audit.list({ limit: 2, cursor: first.cursor! })
  assert.deepEqual(
    [...first.items, ...rest.items].map(({ target }) => target.queue),
    ['a', 'c', 'b', 'a'],
  )
  assert.equal(rest.cursor, null)
  const byActor = await client.audit.list({ actor: eve.token.id })
  assert.deepEqual(
    byActor.items.map(({ action }) => action),
    ['queue.resume'],
  )
  const byAction = await client.audit.list({ action: 'queue.pause', limit: 1 })
  assert.deepEqual([byAction.items[0]?.target.queue, typeof byAction.cursor], ['c', 'string'])
  assert.deepEqual((await client.audit.list({ action: 'lock.evict' })).items, [])
  assert.equal((await ada.ask('GET', '/v1/audit?limit=501')).status, 400)
})

test('a caller without a token is recorded as local, and a bootstrap secret as bootstrap', async () => {
  await using stage = await serving()
  await stage.ask('POST', '/v1/queues/mail/pause')
  assert.deepEqual((await stage.ask('GET', '/v1/audit')).body.items[0].actor, { id: 'local', name: null })
  const bootstrap = 'b'.repeat(40)
  await using guarded = await serving({ bootstrap: [bootstrap] })
  const headers = { authorization: `Bearer ${bootstrap}` }
  await guarded.ask('POST', '/v1/queues/mail/pause', { headers })
  const { body } = await guarded.ask('GET', '/v1/audit', { headers })
  assert.deepEqual(body.items[0].actor, { id: 'bootstrap', name: null })
})

test('the audit contains no secret, also when a caller sends one as a name or an id', async () => {
  await using stage = await serving()
  const { token, ask, audit } = await signedIn(stage)
  const created = await ask('POST', '/v1/tokens', { name: 'ci', scope: 'work' })
  const { secret } = created.body
  const channelSecret = 'Canary7Canary7Canary7Canary7'
  const url = `https://hooks.example/${channelSecret}`
  await ask('POST', '/v1/tokens', { name: secret, scope: 'read' })
  await ask('DELETE', `/v1/tokens/${secret}`)
  await ask('POST', `/v1/jobs/${secret}/cancel`)
  await ask('POST', `/v1/queues/${secret}/pause`)
  await ask('POST', '/v1/locks/evict', {
    ...key,
    resource: `postgres://app:${channelSecret}@db/shop`,
    node: 'n',
  })
  for (const type of ['webhook', channelSecret]) {
    const channel = { type, url, secret: channelSecret }
    await ask('POST', '/v1/monitor/subscriptions', { name: 'ops', channel })
    await ask('POST', '/v1/monitor/test', { channel: { ...channel, url: 'https://127.0.0.1/x' } })
  }
  const { items } = await audit()
  assert.equal(items.length, 10)
  const text = JSON.stringify(items)
  for (const hidden of [secret, secret.slice(-43), token.secret, channelSecret])
    assert.ok(!text.includes(hidden), `${hidden} in ${text}`)
})

for (const [how, broken] of [
  ['fails', () => Promise.reject(new Error('the disk is full'))],
  ['never answers', () => new Promise<never>(() => {})],
] as const) {
  test(`an audit that ${how} is logged and counted, and fails no request`, async () => {
    await using box = await open('memory:')
    let logged = ''
    const destination = {
      write(text: string, taken: () => void) {
        logged += text
        taken()
      },
    }
    const log = createLog({ destination })
    const backend = new Proxy(box.backend, {
      get(target, name) {
        const value: unknown = Reflect.get(target, name)
        if (name !== 'within') return typeof value === 'function' ? value.bind(target) : value
        return (namespace: string) => {
          const stores = target.within(namespace)
          const audit: AuditStore = {
            write: broken,
            list: (query) => stores.audit.list(query),
            prune: (request) => stores.audit.prune(request),
          }
          return { ...stores, audit }
        }
      },
    })
    const server = createServer({ box: { backend }, port: 0, log })
    const { url } = await server.listen()
    try {
      using client = createClient(url)
      await client.jobs.pause('mail')
      await assert.rejects(client.locks.evict({ ...key, node: 'unknown' }), { code: 'not_found' })
      const scrape = await (await fetch(`${url}/metrics`)).text()
      assert.match(scrape, /^signalbox_audit_failed_total 2$/m)
      await log.flush()
      const lines = logged.split('\n').filter((line) => line.includes('audit.failed'))
      assert.deepEqual(
        lines.map((line) => (JSON.parse(line) as { action: string }).action),
        ['queue.pause', 'lock.evict'],
      )
    } finally {
      await server.close()
    }
  })
}

test('an action on which the store failed is recorded as unknown', async () => {
  await using box = await open('memory:')
  const backend = new Proxy(box.backend, {
    get(target, name) {
      const value: unknown = Reflect.get(target, name)
      if (name !== 'within') return typeof value === 'function' ? value.bind(target) : value
      return (namespace: string) => {
        const stores = target.within(namespace)
        const jobs = new Proxy(stores.jobs, {
          get: (store, verb) =>
            verb === 'pause' ? () => Promise.reject(new Error('the wire was cut')) : Reflect.get(store, verb),
        })
        return { ...stores, jobs }
      }
    },
  })
  const server = createServer({ box: { backend }, port: 0, onError: () => {} })
  const { url } = await server.listen()
  try {
    assert.equal((await fetch(`${url}/v1/queues/mail/pause`, { method: 'POST' })).status, 500)
    const [entry] = await box.backend.audit.list({ limit: 10 })
    assert.deepEqual([entry?.action, entry?.outcome, entry?.code], ['queue.pause', 'unknown', 'internal'])
  } finally {
    await server.close()
  }
})
