import assert from 'node:assert/strict'
import { open } from 'signalbox'
import { createServer } from 'signalbox/server'
import { test } from 'vitest'
import { type Route, routes } from '../../../../src/http/contract/index.ts'

/** Errors of drivers and programs with details that must not leave the server. */
const failures: readonly (() => unknown)[] = [
  () => new Error('SELECT secret_column FROM job_queue: no such column'),
  () => Object.assign(new Error('ECONNREFUSED 10.0.0.7:5432'), { code: 'ECONNREFUSED', address: '10.0.0.7' }),
  () => new TypeError("Cannot read properties of undefined (reading 'secretField')"),
  () => Object.assign(new Error('boom'), { statusCode: 500, sql: 'DELETE FROM secret_table' }),
  () => 'a text that was thrown: secret_text',
  () => undefined,
  () => null,
  () => ({ toString: () => 'secret_object' }),
  () => new AggregateError([new Error('secret_inner')], 'secret_outer'),
  () => new RangeError('Invalid array length secret_length'),
  () => Object.assign(new Error('secret_errno'), { errno: -28, code: 'ENOSPC', path: '/var/secret' }),
  () => Object.assign(new Error('secret_code'), { code: 'HPE_INVALID_METHOD_secret' }),
  () => Object.assign(new Error('relation "secret"'), { code: '42P01', routine: 'parserOpenTable' }),
  () => new DOMException('secret_dom', 'AbortError'),
  () => Symbol('secret_symbol'),
  () => Object.assign(new Error('secret_missing'), { statusCode: 404 }),
  () => Object.assign(new Error('secret_status'), { status: 200, code: 'not_a_code' }),
]

const telling = /secret|SELECT|DELETE|10\.0\.0\.7|ECONN|\.ts\b|node:|at [\w.]+ \(|\bboom\b|stack/i

test('hundreds of unexpected failures become problem documents without internal details', async () => {
  await using box = await open('memory:')
  let failure: (() => unknown) | undefined
  const failing = <Thing extends object>(thing: Thing): Thing =>
    new Proxy(thing, {
      get(target, name) {
        const member: unknown = Reflect.get(target, name)
        if (typeof member !== 'function') return member
        return (...args: unknown[]) => {
          if (failure !== undefined) throw failure()
          return Reflect.apply(member, target, args)
        }
      },
    })
  const backend = new Proxy(box.backend, {
    get(target, name) {
      const member: unknown = Reflect.get(target, name)
      if (name !== 'within') return typeof member === 'function' ? member.bind(target) : member
      return (namespace: string) => {
        const stores = target.within(namespace)
        return {
          ...stores,
          jobs: failing(stores.jobs),
          logs: failing(stores.logs),
          attempts: failing(stores.attempts),
          workers: failing(stores.workers),
          schedules: failing(stores.schedules),
          locks: failing(stores.locks),
          keyed: failing(stores.keyed),
        }
      }
    },
  })
  const seen: unknown[] = []
  await using server = createServer({ box: { backend }, port: 0, onError: (error) => seen.push(error) })
  const { url } = await server.listen()
  let forced = 0
  for (const [route, path, body] of requests()) {
    for (const next of failures) {
      failure = next
      const headers = { 'content-type': 'application/json', 'x-request-id': `try-${forced}` }
      const sent = body === undefined ? {} : { body: JSON.stringify(body), headers }
      const reply = await fetch(url + path, { method: route.method, ...sent })
      failure = undefined
      const text = await reply.text()
      assert.doesNotMatch(text, telling)
      if (reply.status < 400) continue
      forced++
      const what = `${route.id}: ${reply.status} ${text}`
      assert.equal(reply.status, 500, what)
      assert.match(reply.headers.get('content-type')!, /^application\/problem\+json/, what)
      assert.ok(reply.headers.get('x-request-id'), what)
      assert.equal(JSON.parse(text).code, 'internal', what)
      for (const [name, value] of reply.headers) assert.doesNotMatch(value, telling, name)
    }
  }
  assert.ok(forced >= 200, `only ${forced} were forced`)
  assert.equal(seen.length, forced, 'each reaches the log of the server')
  assert.equal((await fetch(`${url}/readyz`)).status, 200, 'and the server is none the worse')
})

/** Every route of jobs that asks its store, with what it takes. */
function requests(): readonly (readonly [Route, string, unknown])[] {
  const bodies: Record<string, unknown> = {
    limitQueue: { concurrency: 1 },
    addJobs: { kind: 'mail' },
    claimJobs: {},
    checkHeld: { items: [{ id: 'x', token: 'y' }] },
    ackJob: { token: 'x' },
    nackJob: { token: 'x' },
    renewJob: { token: 'x' },
    logJob: { token: 'x', logs: [{ text: 'half of it' }] },
    retryDeadJobs: {},
    pruneJobs: { olderThanMs: '1h' },
    setSchedule: { name: 'nope', everyMs: '1h', job: { kind: 'mail' } },
    removeJobs: { ids: ['x'] },
    bulkJobs: { action: 'retry', search: 'kind:mail' },
    waitForJobs: { ids: ['x'] },
  }
  return routes
    .filter(({ module, replyType }) => module === 'jobs' && replyType !== 'events')
    .map((route) => {
      const body = bodies[route.id] ?? (route.method === 'POST' ? {} : undefined)
      return [route, route.path.replaceAll(/\{\w+\}/g, 'nope'), body] as const
    })
}
