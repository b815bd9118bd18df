import assert from 'node:assert/strict'
import { test } from 'vitest'
import { routes } from '../contract/index.ts'
import { createRouter } from './router.ts'

const router = createRouter(routes)
const idOf = (method: string, path: string) => router.match(method, path).route.id

test('every route of the table is found at its path, with its parameters decoded', () => {
  for (const route of routes) {
    const path = route.path.replaceAll(/\{\w+\}/g, 'a%2Fb%20%C3%A9')
    const { route: found, params } = router.match(route.method, path)
    assert.equal(found, route)
    assert.deepEqual(
      Object.values(params),
      [...route.path.matchAll(/\{/g)].map(() => 'a/b é'),
    )
  }
})

test('a fixed name wins over a parameter, unless the method differs', () => {
  assert.equal(idOf('POST', '/v1/jobs/claim'), 'claimJobs')
  assert.equal(idOf('GET', '/v1/jobs/events'), 'jobEvents')
  assert.equal(idOf('GET', '/v1/jobs/claim'), 'getJob')
  assert.equal(idOf('HEAD', '/v1/jobs/7'), 'getJob')
})

test('a wrong method gets the list of methods, and an unknown path gets not found', () => {
  assert.throws(() => router.match('PUT', '/v1/jobs/claim'), {
    code: 'method_not_allowed',
    details: { allow: ['POST', 'GET', 'HEAD'] },
  })
  for (const path of ['/', '', '/v1/jobs/', '/v1//jobs', '/v1/jobs/a/b', '/v1/jobs/a/ack/'])
    assert.throws(() => router.match('GET', path), { code: 'not_found' }, path)
  assert.throws(() => router.match('GET', '/v1/jobs/%E0%A4%A'), { code: 'invalid_argument' })
})
