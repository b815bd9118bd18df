import assert from 'node:assert/strict'
import { validate } from '@hyperjump/json-schema/openapi-3-1'
import * as fc from 'fast-check'
import { test } from 'vitest'
import { type ApiAnswer, type ApiRequest, type Operation, openDriver } from '../../contract/api-driver.ts'
import { fits, hintedValuesOf, misfitsOf, valuesOf } from '../../contract/schema-values.ts'
import { SeenValues } from '../../contract/seen-values.ts'
import { serving } from '../stage.ts'

/**
 * What a client in another language would do: read `/openapi.json`, and believe it. `OPENAPI_SEED` sends the same
 * requests again.
 */
const seed = Number(process.env.OPENAPI_SEED ?? 1)
/** Rounds through all operations. What goes well needs more: one request has to find what another made. */
const describedRounds = 10
const otherRounds = 4
const runsPerRound = 5

const secret = 'a bootstrap secret of more than 32 characters'
const headers = { authorization: `Bearer ${secret.replaceAll(' ', '-')}` }

async function stage() {
  const served = await serving({ bootstrap: [secret.replaceAll(' ', '-')] })
  const driver = await openDriver(served.url, headers)
  return {
    ...served,
    driver,
    async [Symbol.asyncDispose]() {
      driver[Symbol.dispose]()
      await served[Symbol.asyncDispose]()
    },
  }
}

/** Requests as described. */
function requestsOf(operation: Operation, seen: SeenValues): fc.Arbitrary<ApiRequest> {
  const { body } = operation
  const requests = fc.record(
    {
      parameters: parametersOf(operation, seen).map(shortWait),
      ...(body && { body: valuesOf(body.schema, seen.hints(operation)).map(shortWait).map(oneOfEach) }),
    },
    { requiredKeys: body?.required ? ['parameters', 'body'] : ['parameters'] },
  ) as fc.Arbitrary<ApiRequest>
  return fc
    .tuple(requests, fc.boolean(), fc.nat())
    .map(([request, isMatched, pick]) => (isMatched ? seen.match(operation, request, pick) : request))
}

function parametersOf(operation: Operation, seen: SeenValues): fc.Arbitrary<Record<string, unknown>> {
  const required = operation.parameters.filter((one) => one.required).map((one) => one.name)
  const fields = operation.parameters.map(({ name, schema }) => {
    // Each namespace is separate; a few are enough.
    if (name === 'Signalbox-Namespace')
      return [name, fc.constantFrom(...Array<string>(9).fill('default'), 'shop%201')] as const
    return [name, hintedValuesOf(schema, name, seen.hints(operation))] as const
  })
  return fc.record(Object.fromEntries(fields), { requiredKeys: required }) as fc.Arbitrary<
    Record<string, unknown>
  >
}

/** Shortens waits, so that no request waits a minute for a job. */
function shortWait(fields: unknown): unknown {
  if (typeof fields !== 'object' || fields === null || !('waitMs' in fields)) return fields
  return { ...fields, waitMs: 5 }
}

/** Of fields that exclude each other the first stays, nearly always: else hardly anything would ever go well. */
const exclusive = [
  ['delayMs', 'runAt'],
  ['cron', 'everyMs', 'startAt'],
  ['everyMs', 'timeZone'],
  ['handBack', 'snoozeMs', 'retryInMs', 'backoff', 'error', 'dead'],
  ['snoozeMs', 'retryInMs', 'backoff', 'error', 'dead'],
  ['retryInMs', 'backoff'],
] as const

let drawn = 0
function oneOfEach(body: unknown): unknown {
  if (Array.isArray(body)) return body.map(oneOfEach)
  if (typeof body !== 'object' || body === null || ++drawn % 8 === 0) return body
  const left = { ...body } as Record<string, unknown>
  // A job may wait only for existing jobs, and made-up ids do not exist.
  delete left.after
  for (const [first, ...others] of exclusive) {
    if (Object.hasOwn(left, first)) for (const other of others) delete left[other]
  }
  return left
}

/** Rules that a schema cannot say. A refusal of a request that fits must be by one of them. */
const rulesBeyondSchema = [
  /fields of both forms/,
  /needs subjects, or timeSlot and venues/,
  /names one subject by source and subject/,
  /must be milliseconds (of|from) /,
  /runAt.*delayMs|delayMs.*runAt/,
  /percent-encoded/,
  /^queues(\[| must name)/,
  /Give one of them/,
  /cursor is not one that a page ended with/,
  /^release has .* with the outcome/,
  /without node: name the node/,
  /either key, or keys|fingerprint is of one key/,
  /in the space "processing"/,
  /needs `from`/,
  /^A token for nodes has the scope "work"/,
  /^channel[ .]/,
  /search does not parse: at column|search has no terms|search names the queue/,
  /^(submit|definePool)\.(uses|requires|prefers)/,
  /limits nothing|after names|after has a cycle|each ref of a list must be different/,
  /^schedule needs either|^schedule\.(cron|timeZone|everyMs|startAt|endAt)/,
  /cursor continues a count/,
  /\.cursor must be /,
  /^series\.(step|from|to) |more than [\d,]+ steps/,
  /scaling (needs|takes)|either queue or service|^scaling\./,
  /^alerts?[ .]|^channel/,
  /names that begin with "signalbox\." belong to Signalbox itself/,
]

function describeAnswer(operation: Operation, request: ApiRequest, { status, body }: ApiAnswer): string {
  return `seed ${seed}: ${operation.id} ${JSON.stringify(request)} -> ${status} ${JSON.stringify(body)}`
}

/** Goes around and around: what one request made, the next can find. */
async function goAround<Item>(
  operations: readonly Operation[],
  itemsOf: (operation: Operation) => fc.Arbitrary<Item>,
  visit: (operation: Operation, item: Item) => Promise<void>,
  rounds: number,
): Promise<void> {
  for (let round = 0; round < rounds; round++) {
    for (const [index, operation] of operations.entries()) {
      const isCheap = !operation.isStream && operation.parameters.length > 0
      const property = fc.asyncProperty(itemsOf(operation), (item) => visit(operation, item))
      // Another seed each time, else all would begin with the same values.
      await fc.assert(property, { seed: seed + round * 100 + index, numRuns: isCheap ? runsPerRound : 1 })
    }
  }
}

test("the server's description of itself is valid OpenAPI 3.1", async () => {
  await using served = await stage()
  const { status, headers, body } = await served.ask('GET', '/openapi.json')
  assert.equal(status, 200)
  assert.match(headers.get('content-type')!, /^application\/json/)
  const { valid } = await validate('https://spec.openapis.org/oas/3.1/schema-base', body)
  assert.equal(valid, true)
})

test('each request that fits the description gets a response that fits it', async () => {
  await using served = await stage()
  const { driver } = served
  const seen = new SeenValues()
  const statuses = new Map<string, Map<number, number>>()
  await goAround(
    driver.operations,
    (operation) => requestsOf(operation, seen),
    async (operation, request) => {
      const answer = await driver.call(operation, request)
      const counts = statuses.get(operation.id) ?? new Map<number, number>()
      statuses.set(operation.id, counts.set(answer.status, (counts.get(answer.status) ?? 0) + 1))
      if (answer.status < 300) seen.learn(operation, request, answer.body)
      assert.ok(answer.status < 500, describeAnswer(operation, request, answer))
      if (answer.status !== 400) return
      const isRule = rulesBeyondSchema.some((rule) => rule.test(answer.body.detail))
      assert.ok(isRule, `refused for its shape: ${describeAnswer(operation, request, answer)}`)
    },
    describedRounds,
  )
  const summary = [...statuses].map(
    ([id, counts]) => `${id} ${[...counts].map((one) => one.join('×')).join(' ')}`,
  )
  console.log(`[openapi] seed ${seed}: ${driver.answerCount} described requests; ${summary.join(', ')}`)
  const idle = [...statuses].filter(([, counts]) => ![...counts.keys()].some((status) => status < 300))
  // A lease may have run out, or a name be taken, whenever it mattered; but not everywhere.
  assert.ok(
    idle.length <= driver.operations.length / 6,
    `almost every operation went well at least once, but not ${idle.map(([id]) => id)}`,
  )
}, 180_000)

test('malformed requests get a problem document, never a 5xx', async () => {
  await using served = await stage()
  const { driver } = served
  const seen = new SeenValues()
  const counts: Record<string, number> = {}
  await goAround(
    driver.operations,
    (operation) => fc.oneof(...misfittingRequestsOf(operation, seen)),
    async (operation, { how, request }) => {
      const answer = await driver.call(operation, request)
      counts[how] = (counts[how] ?? 0) + 1
      assert.ok(
        answer.status >= 400 && answer.status < 500,
        `${how}: ${describeAnswer(operation, request, answer)}`,
      )
      assert.equal(answer.type, 'application/problem+json')
    },
    otherRounds,
  )
  for (const how of ['parameter', 'unknown parameter', 'body', 'no JSON', 'body where none is taken'])
    assert.ok((counts[how] ?? 0) > 10, `${how} was tried`)
  console.log(
    `[openapi] seed ${seed}: ${driver.answerCount} requests that are not described; ${JSON.stringify(counts)}`,
  )
}, 180_000)

interface Misfit {
  readonly how: string
  readonly request: ApiRequest
}

/** Requests with one thing wrong. */
function misfittingRequestsOf(operation: Operation, seen: SeenValues): fc.Arbitrary<Misfit>[] {
  const { body } = operation
  const fitting = requestsOf(operation, seen)
  const ways: fc.Arbitrary<Misfit>[] = [
    fc.tuple(fitting, fc.constantFrom('x', 'Limit', '__proto__', 'constructor')).map(([request, name]) => ({
      how: 'unknown parameter',
      request: { ...request, rawQuery: `${name}=1` },
    })),
  ]
  for (const { name, schema, in: place } of operation.parameters) {
    // What no header can hold is not the server's to refuse.
    if (place === 'header') continue
    const misfits = misfitsOf(schema)
      .filter((value) => ['string', 'number', 'boolean'].includes(typeof value))
      // Text has no types: what reads the same as a value that fits is one, and an empty name is another path.
      .filter((value) => value !== '' && !(schema.type === 'string' && typeof value !== 'string'))
    ways.push(
      fc.tuple(fitting, misfits).map(([request, value]) => ({
        how: 'parameter',
        request: { ...request, parameters: { ...request.parameters, [name]: value } },
      })),
    )
  }
  if (body === undefined) {
    if (operation.method !== 'GET')
      ways.push(
        fitting.map((request) => ({
          how: 'body where none is taken',
          request: { ...request, body: { x: 1 } },
        })),
      )
    return ways
  }
  ways.push(
    fc
      .tuple(
        fitting,
        misfitsOf(body.schema, seen.hints(operation))
          .map(shortWait)
          .filter((value) => !fits(body.schema, value)),
      )
      .map(([request, misfit]) => ({ how: 'body', request: { ...request, body: misfit } })),
    fc
      .tuple(
        fitting,
        fc.constantFrom('{', '{"a":1,}', '[', 'nul', '{"a":\u0001}', '{"__proto__":{}}', '\ufeff{}'),
      )
      .map(([request, rawBody]) => ({ how: 'no JSON', request: { ...request, rawBody } })),
  )
  return ways
}

test('a client that knows only operation ids adds, claims, renews, completes and finds a job', async () => {
  await using served = await stage()
  const { driver } = served
  const call = async (id: string, request: ApiRequest) =>
    (await driver.call(driver.operation(id), request)).body

  const { id, duplicate } = await call('addJobs', { body: { kind: 'mail', payload: { to: 'ada' } } })
  assert.equal(duplicate, false)
  const { items } = await call('claimJobs', {
    body: { workerId: 'a reader of descriptions', leaseMs: '30s' },
  })
  assert.deepEqual([items.length, items[0].id, items[0].payload], [1, id, { to: 'ada' }])
  const { token, leaseEndsAt } = items[0]
  const renewed = await call('renewJob', { parameters: { id }, body: { token, leaseMs: 60_000 } })
  assert.ok(renewed.leaseEndsAt > leaseEndsAt)
  const settled = await call('ackJob', { parameters: { id }, body: { token, result: { sent: true } } })
  assert.deepEqual(settled, { id, state: 'completed' })
  const job = await call('getJob', { parameters: { id } })
  assert.deepEqual(
    [job.state, job.result, job.workerId],
    ['completed', { sent: true }, 'a reader of descriptions'],
  )
  const late = await driver.call(driver.operation('ackJob'), { parameters: { id }, body: { token } })
  assert.deepEqual([late.status, late.body.code], [409, 'lease_lost'])
})
