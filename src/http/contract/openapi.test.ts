import assert from 'node:assert/strict'
import { validate } from '@hyperjump/json-schema/openapi-3-1'
import { test } from 'vitest'
import { errorCodes } from '../../core/errors.ts'
import { type ApiDescription, describeApi, type Operation } from './openapi.ts'
import { problemsOf, takesIdempotencyKey } from './problem.ts'
import type { Route } from './route.ts'
import { routes } from './routes.ts'

// As clients get it: what JSON does not keep is not in the document.
const api = JSON.parse(
  JSON.stringify(describeApi(routes, { version: '1.2.3', url: 'http://127.0.0.1:7420' })),
) as ApiDescription

/** The whole of OpenAPI 3.1, with every schema inside checked as JSON Schema 2020-12. */
async function isValid(document: object): Promise<boolean> {
  const plain = JSON.parse(JSON.stringify(document))
  return (await validate('https://spec.openapis.org/oas/3.1/schema-base', plain)).valid
}

const operationOf = (route: Route): Operation => api.paths[route.path]![route.method.toLowerCase()]!

/** What a reference refers to. */
function resolve(pointer: string): unknown {
  let place: unknown = api
  for (const step of pointer.slice(2).split('/')) place = (place as Record<string, unknown>)[step]
  return place
}

function references(part: unknown): readonly string[] {
  if (typeof part !== 'object' || part === null) return []
  const own = '$ref' in part && typeof part.$ref === 'string' ? [part.$ref] : []
  return [...own, ...Object.values(part).flatMap(references)]
}

test('the document is valid OpenAPI 3.1, and an invalid one is found', async () => {
  assert.equal(await isValid(api), true)
  const { responses: _, ...withoutReplies } = operationOf(routes[0]!)
  for (const broken of [
    { ...api, paths: { '/livez': { get: { ...withoutReplies, responses: { 200: {} } } } } },
    { ...api, components: { schemas: { Job: { type: 'strin' } } } },
    { ...api, components: { schemas: { Job: { required: 'id' } } } },
    { ...api, openapi: '3.0.0' },
  ]) {
    assert.equal(await isValid(broken), false)
  }
})

test('every route is an operation with its id, and there are no other operations', () => {
  const ids = Object.values(api.paths).flatMap((item) => Object.values(item).map((one) => one.operationId))
  assert.deepEqual(new Set(ids).size, ids.length)
  assert.deepEqual([...ids].sort(), routes.map((route) => route.id).sort())
  for (const route of routes) assert.equal(operationOf(route).operationId, route.id)
})

test('every reference has a target, and every component is referenced', () => {
  const all = new Set(references(api))
  for (const pointer of all) assert.ok(resolve(pointer), pointer)
  for (const kind of ['schemas', 'responses', 'parameters', 'headers']) {
    for (const name of Object.keys(api.components[kind]!)) {
      assert.ok(all.has(`#/components/${kind}/${name}`), `${kind}/${name} is used`)
    }
  }
})

test('components that several routes share are described once', () => {
  for (const name of ['Job', 'ClaimedJob', 'QueueStats', 'Token', 'Problem']) {
    assert.ok(Object.hasOwn(api.components.schemas!, name), name)
  }
  const page = (operationOf(routes.find((route) => route.id === 'listJobs')!).responses[200] as Reply).content
  const { required, properties } = page['application/json']!.schema as {
    readonly required: readonly string[]
    readonly properties: Readonly<Record<string, unknown>>
  }
  assert.deepEqual(required, ['items', 'cursor'])
  assert.deepEqual(properties.items, { type: 'array', items: { $ref: '#/components/schemas/Job' } })
  assert.deepEqual(properties.cursor, { anyOf: [{ type: 'string' }, { type: 'null' }] })
  assert.deepEqual(api.components.schemas!.Scope, { type: 'string', enum: ['read', 'work', 'admin'] })
})

interface Reply {
  readonly content: Readonly<Record<string, { readonly schema: object; readonly 'x-events'?: object }>>
}
interface Parameter {
  readonly name: string
  readonly in: string
  readonly required: boolean
}

test('every parameter in a path is described as required, and no other', () => {
  for (const route of routes) {
    const parameters = (operationOf(route).parameters ?? []) as readonly Parameter[]
    const described = parameters.filter((one) => one.in === 'path')
    assert.deepEqual(
      described.map((one) => one.name),
      [...route.path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name),
      route.id,
    )
    assert.ok(described.every((one) => one.required))
  }
})

test('every possible answer of a route is described, with the problem codes of each status', () => {
  for (const route of routes) {
    const replies = operationOf(route).responses
    const codes = new Set<string>()
    for (const [status, shown] of Object.entries(replies)) {
      const reply = ('$ref' in shown ? resolve(shown.$ref as string) : shown) as Reply
      const problem = reply.content['application/problem+json']
      assert.ok(problem !== undefined || route.replies[Number(status)] !== undefined, route.id)
      if (problem === undefined) continue
      const { allOf } = problem.schema as { allOf: [object, { properties: ProblemFields }] }
      for (const code of allOf[1].properties.code.enum) {
        assert.equal(errorCodes[code as keyof typeof errorCodes].status, Number(status))
        codes.add(code)
      }
    }
    assert.deepEqual([...codes].sort(), [...problemsOf(route)].sort(), route.id)
    for (const status of Object.keys(route.replies)) assert.ok(status in replies)
  }
})

interface ProblemFields {
  readonly code: { readonly enum: readonly string[] }
}

test('each operation describes its scope, its headers and its kind of reply', () => {
  for (const route of routes) {
    const operation = operationOf(route)
    const refs = references(operation.parameters ?? [])
    assert.equal(operation['x-scope'], route.scope)
    assert.deepEqual(operation.security, route.scope === 'none' ? [] : [{ bearer: [route.scope] }])
    assert.equal(refs.includes('#/components/parameters/Namespace'), route.scope !== 'none', route.id)
    assert.equal(refs.includes('#/components/parameters/IdempotencyKey'), takesIdempotencyKey(route))
    const [status] = Object.keys(route.replies)
    const [type] = Object.keys((operation.responses[status!] as Reply).content)
    const expected = { json: 'application/json', text: 'text/plain', events: 'text/event-stream' }
    assert.equal(type, expected[route.replyType ?? 'json'], route.id)
  }
})

test('a stream describes its events and their data', () => {
  for (const route of routes.filter((one) => one.replyType === 'events')) {
    const { content } = operationOf(route).responses[200] as Reply
    const events = content['text/event-stream']!['x-events']!
    assert.ok(Object.keys(events).length > 0, `${route.id} describes its events`)
  }
})

test('an optional body is described as optional', () => {
  for (const route of routes) {
    const { requestBody } = operationOf(route) as { requestBody?: { required: boolean } }
    assert.equal(requestBody?.required, route.body && route.bodyOptional !== true, route.id)
  }
})

test('the description of Last-Event-ID allows the ids that streams send', () => {
  const parameters = api.components.parameters as unknown as Record<string, { schema: { pattern: string } }>
  const pattern = new RegExp(parameters.LastEventId!.schema.pattern, 'u')
  for (const id of ['7', '1763590000000000']) assert.match(id, pattern)
})
