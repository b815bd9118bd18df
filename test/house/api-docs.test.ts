import assert from 'node:assert/strict'
import { Value } from 'typebox/value'
import { test } from 'vitest'
import { routes } from '../../src/http/contract/index.ts'
import { pathParams } from '../../src/http/contract/route.ts'
import { printApi } from '../../tools/api-docs.ts'
import { apiExamples, printCurl } from '../../tools/api-examples.ts'
import { readSource } from './sources.ts'

test('docs/api.md agrees with the table of routes', async () => {
  const page = await readSource('docs/api.md')
  assert.ok(page === printApi(routes), 'docs/api.md is stale: run `npm run docs`')
})

test('a change of the table of routes is found', () => {
  const [first, ...others] = routes
  const page = printApi(routes)
  assert.notEqual(printApi(others), page)
  assert.notEqual(printApi([{ ...first!, scope: 'admin' }, ...others]), page)
  assert.notEqual(printApi([{ ...first!, problems: ['conflict'] }, ...others]), page)
  assert.notEqual(printApi([{ ...first!, summary: 'Other words.' }, ...others]), page)
})

test('every route is on the page with its scope, an example request, and a working heading link', () => {
  const page = printApi(routes)
  const headings = [...page.matchAll(/^### (.+)$/gm)].map(([, text]) => text)
  for (const route of routes) {
    assert.ok(headings.includes(`${route.method} ${route.path}`), route.id)
    assert.ok(page.includes(printCurl(route)), route.id)
  }
  const anchors = new Set(
    [...page.matchAll(/^#+ (.+)$/gm)].map(([, text]) =>
      text!
        .toLowerCase()
        .replaceAll(/[^\w\- ]/g, '')
        .replaceAll(' ', '-'),
    ),
  )
  for (const [, target] of page.matchAll(/\]\(#([^)]+)\)/g)) assert.ok(anchors.has(target!), target)
})

test('every example is a request that its route accepts', () => {
  for (const id of Object.keys(apiExamples))
    assert.ok(
      routes.some((route) => route.id === id),
      id,
    )
  for (const route of routes) {
    const { params, query, body } = apiExamples[route.id] ?? {}
    const inPath = pathParams(route)
    assert.equal(params !== undefined, inPath !== undefined, `${route.id} has an example for its path`)
    if (inPath !== undefined) assert.ok(Value.Check(inPath, params), route.id)
    if (query !== undefined) assert.ok(route.query && Value.Check(route.query, query), route.id)
    const sent = body ?? (route.bodyOptional ? {} : undefined)
    assert.equal(sent !== undefined, route.body !== undefined, `${route.id} has a body when it takes one`)
    if (route.body !== undefined) assert.ok(Value.Check(route.body, sent), route.id)
  }
})
