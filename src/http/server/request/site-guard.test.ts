import assert from 'node:assert/strict'
import { test } from 'vitest'
import { routes } from '../../contract/index.ts'
import { checkSite } from './site-guard.ts'

const hosts = new Set(['localhost:7420', '127.0.0.1:7420', '[::1]:7420'])
const json = { 'content-type': 'application/json', 'content-length': '2' }

interface Asked {
  readonly method?: string
  readonly path?: string
  readonly hosts?: ReadonlySet<string> | undefined
}

/** What becomes of a request: its route is found in the table, as the server would. */
function ask(headers: Readonly<Record<string, string>>, asked: Asked = {}): string {
  const { method = 'GET', path = '/v1/jobs' } = asked
  const whole: Readonly<Record<string, string>> = { host: 'localhost:7420', ...headers }
  const incoming = { method, path, header: (name: string) => whole[name] }
  const route = routes.find((one) => one.method === method && one.path === path)
  try {
    checkSite(incoming, route, 'hosts' in asked ? asked.hosts : hosts)
    return 'passed'
  } catch (error) {
    const { code, message } = error as Error & { code: string }
    assert.match(message, /\.$/)
    return code
  }
}

test('only configured host names are answered, so a page cannot rebind its name to this server', () => {
  for (const host of ['localhost:7420', 'LocalHost:7420', '127.0.0.1:7420', '[::1]:7420'])
    assert.equal(ask({ host }), 'passed', host)
  for (const host of ['evil.example', 'evil.example:7420', 'localhost', 'localhost:7421', 'localhost.:7420'])
    for (const path of ['/v1/jobs', '/livez', '/nope', '/'])
      assert.equal(ask({ host }, { path }), 'forbidden', host)
  assert.equal(ask({ host: '' }), 'invalid_argument')
  assert.equal(ask({ host: 'any.example' }, { hosts: undefined }), 'passed', 'an app around us checks it')
})

test('the request target is a path', () => {
  for (const path of ['http://evil.example/livez', '*', '', 'livez'])
    assert.equal(ask({}, { path }), 'invalid_argument', path)
})

test('a page of another site is refused, reading or writing, on every route', () => {
  for (const { method, path } of routes) {
    for (const site of ['cross-site', 'same-site', 'Same-Origin', ''])
      assert.equal(
        ask({ 'sec-fetch-site': site, ...json }, { method, path }),
        'forbidden',
        `${method} ${path}`,
      )
    for (const site of ['same-origin', 'none'])
      assert.equal(ask({ 'sec-fetch-site': site, ...json }, { method, path }), 'passed', `${method} ${path}`)
  }
})

test('a link from another site may lead to a page of ours, but not into the API', () => {
  const link = { 'sec-fetch-site': 'cross-site', 'sec-fetch-mode': 'navigate' }
  assert.equal(ask(link, { path: '/' }), 'passed')
  assert.equal(ask(link, { path: '/openapi.json' }), 'passed')
  assert.equal(ask(link, { path: '/v1/jobs' }), 'forbidden')
  assert.equal(ask(link, { path: '/v1/nope' }), 'forbidden')
  assert.equal(ask({ ...link, ...json }, { method: 'POST', path: '/v1/jobs' }), 'forbidden')
  assert.equal(ask(link, { method: 'POST', path: '/' }), 'forbidden')
  assert.equal(ask({ ...link, 'sec-fetch-mode': 'no-cors' }, { path: '/' }), 'forbidden')
})

test('without Fetch Metadata the Origin must be ours', () => {
  const post = { method: 'POST', path: '/v1/jobs' }
  for (const origin of ['http://localhost:7420', 'https://localhost:7420', 'http://[::1]:7420'])
    assert.equal(ask({ origin, ...json }, post), 'passed', origin)
  for (const origin of [
    'null',
    '',
    'http://evil.example',
    'http://localhost:3000',
    'http://localhost',
    'file://localhost:7420',
    'http://localhost:7420.evil.example',
    'http://evil.example/http://localhost:7420',
  ])
    assert.equal(ask({ origin, ...json }, post), 'forbidden', origin)
  const mounted = { ...post, hosts: undefined }
  assert.equal(ask({ host: 'app.example', origin: 'https://app.example', ...json }, mounted), 'passed')
  assert.equal(ask({ host: 'app.example', origin: 'https://evil.example', ...json }, mounted), 'forbidden')
})

test('a program that is not a browser needs none of these headers', () => {
  for (const { method, path } of routes) assert.equal(ask(json, { method, path }), 'passed', path)
})

test('a change with a body must be JSON, which a form of another site cannot send', () => {
  const post = { method: 'POST', path: '/v1/jobs' }
  for (const type of [
    'application/json',
    'application/json; charset=utf-8',
    'Application/JSON;charset=UTF-8',
    'application/json ; charset="utf-8"',
  ])
    assert.equal(ask({ 'content-type': type, 'content-length': '2' }, post), 'passed', type)
  for (const type of [
    'text/plain',
    'text/plain; application/json',
    'application/x-www-form-urlencoded',
    'multipart/form-data; boundary=application/json',
    'application/json; charset=utf-16',
    'application/json, text/plain',
    'application/jsonp',
    '',
  ]) {
    assert.equal(ask({ 'content-type': type, 'content-length': '2' }, post), 'forbidden', type)
    assert.equal(ask({ 'content-type': type, 'transfer-encoding': 'chunked' }, post), 'forbidden', type)
  }
  assert.equal(ask({ 'content-length': '2' }, post), 'forbidden', 'no type')
  assert.equal(ask({ 'transfer-encoding': 'chunked' }, post), 'forbidden', 'no type')
  assert.equal(ask({}, post), 'passed', 'no body')
  assert.equal(ask({ 'content-type': 'text/plain', 'content-length': '0' }, post), 'passed', 'no body')
  assert.equal(ask({ 'content-type': 'text/plain' }), 'passed', 'it changes nothing')
})

test('headers made to be expensive are judged quickly', () => {
  const post = { method: 'POST', path: '/v1/jobs' }
  const types = [`application/json;${' '.repeat(50_000)}x`, `application/json${';'.repeat(50_000)}`]
  // The best of several: a machine that is busy elsewhere says nothing about the guard.
  const times = Array.from({ length: 5 }, () => {
    const began = performance.now()
    for (const type of types)
      assert.equal(ask({ 'content-type': type, 'content-length': '2' }, post), 'forbidden')
    assert.equal(ask({ host: `${'a.'.repeat(50_000)}:7420` }), 'forbidden')
    assert.equal(ask({ origin: `http://${'a@'.repeat(50_000)}` }), 'forbidden')
    return performance.now() - began
  })
  assert.ok(Math.min(...times) < 10, `${times}`)
})
