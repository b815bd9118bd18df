import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer } from 'node:net'
import { inspect } from 'node:util'
import { test } from 'vitest'
import {
  type FakeServer,
  fakeServer,
  json,
  page,
  problem,
  type Script,
} from '../../../test/http/client/fake-server.ts'
import { isSignalboxError, type SignalboxError } from '../../core/errors.ts'
import {
  addJobs,
  type ClientOptions,
  claimJobs,
  createClient,
  createToken,
  getJob,
  jobEvents,
  listJobs,
  listQueues,
  metrics,
  readyz,
  renewJob,
  wakeQueue,
} from './index.ts'

const quick = { baseMs: 5, maxMs: 20 }
const noQueues = { items: [], cursor: null }
const added = { id: '1', duplicate: false }

function clientOf(server: FakeServer, options: ClientOptions = {}) {
  return createClient(server.url, { backoff: quick, ...options })
}

/** What a promise is rejected with. */
async function failure(promise: Promise<unknown>): Promise<SignalboxError> {
  const outcome = await promise.then(
    (value) => ({ value }),
    (error: unknown) => ({ error }),
  )
  assert.ok('error' in outcome, `it answered ${inspect(outcome)}`)
  assert.ok(isSignalboxError(outcome.error), `it threw ${inspect(outcome.error)}`)
  return outcome.error
}

/** What a job has more when it is asked for by itself. */
const alone = {
  ...{ progress: null, snoozeCount: 0, dependencies: [], dependents: [], attempts: [], blocked: [] },
}

/** How often a script was asked by a call, and how the call ended. */
async function callOf(
  script: Script,
  call: (client: ReturnType<typeof createClient>) => Promise<unknown> = (client) => client.call(listQueues),
  options?: ClientOptions,
): Promise<{ code: string; message: string; tries: number }> {
  await using server = await fakeServer(script)
  const outcome = await call(clientOf(server, options)).then(
    () => ({ code: 'ok', message: '' }),
    (error: SignalboxError) => error,
  )
  return { code: outcome.code, message: outcome.message, tries: server.seen.length }
}

test('a call goes to its route with its parameters, query, body, token and namespace', async () => {
  await using server = await fakeServer((seen, response) => {
    if (seen.method === 'POST') json(response, added, 201)
    else json(response, seen.path.startsWith('/v1/jobs?') ? noQueues : { ...job, ...alone })
  })
  const client = clientOf(server, { token: 'sesame', namespace: 'für alle/1' })
  await client.call(addJobs, { body: { kind: 'mail', payload: { to: 'Ada' } } })
  await client.call(getJob, { params: { id: 'a/b c?#' } })
  await client.call(listJobs, { query: { queue: 'ä&=', limit: 5 } })
  const [add, get, list] = server.seen
  assert.deepEqual(
    [add?.method, add?.path, JSON.parse(add!.body)],
    ['POST', '/v1/jobs', { kind: 'mail', payload: { to: 'Ada' } }],
  )
  assert.equal(add?.headers.authorization, 'Bearer sesame')
  assert.equal(add?.headers['signalbox-namespace'], 'f%C3%BCr%20alle%2F1')
  assert.equal(add?.headers['content-type'], 'application/json')
  assert.deepEqual([get?.method, get?.path, get?.body], ['GET', '/v1/jobs/a%2Fb%20c%3F%23', ''])
  assert.equal(get?.headers['idempotency-key'], undefined)
  assert.equal(new URL(`http://x${list!.path}`).searchParams.get('queue'), 'ä&=')
})

const job = {
  id: '1',
  queue: 'default',
  kind: 'mail',
  payload: null,
  priority: 0,
  uniqueKey: null,
  state: 'ready',
  attempt: 0,
  maxAttempts: 5,
  runAt: 1,
  createdAt: 1,
  startedAt: null,
  finishedAt: null,
  result: null,
  error: null,
  workerId: null,
  backoff: { baseMs: 1, factor: 1, jitter: 0, maxMs: 1 },
  timeoutMs: null,
  tags: [],
  limitKey: null,
  lock: null,
  schedule: null,
  cancelRequested: false,
  cancelIgnored: false,
}

test('a server may have a base path', async () => {
  await using server = await fakeServer((_, response) => json(response, noQueues))
  await createClient(`${server.url}/tools/signalbox/`).call(listQueues)
  assert.equal(server.seen[0]?.path, '/tools/signalbox/v1/queues')
})

test('a problem document is thrown as its error, and a permanent error is not retried', async () => {
  for (const [status, code] of [
    [400, 'invalid_argument'],
    [401, 'unauthorized'],
    [403, 'forbidden'],
    [404, 'not_found'],
    [409, 'conflict'],
    [409, 'lease_lost'],
    [413, 'too_large'],
    [422, 'idempotency_mismatch'],
    [500, 'internal'],
    [503, 'schema_outdated'],
  ] as const) {
    await using server = await fakeServer((_, response) =>
      problem(response, status, code, { details: { jobId: '7' } }),
    )
    const error = await failure(clientOf(server).call(listQueues))
    assert.deepEqual(
      [error.code, error.message, error.details.jobId, server.seen.length],
      [code, `It is ${code}.`, '7', 1],
    )
  }
})

test('an error code of a later version becomes internal and keeps its name', async () => {
  const { code, message } = await callOf((_, response) => problem(response, 418, 'teapot'))
  assert.equal(code, 'internal')
  assert.match(message, /teapot/)
})

test('temporary errors are retried: 503, 502 pages, 504, in_progress, cut connections', async () => {
  const troubles: Script[] = [
    (_, response) => problem(response, 503, 'store_busy'),
    (_, response) => problem(response, 503, 'draining'),
    (_, response) => page(response, 502),
    (_, response) => page(response, 503),
    (_, response) => page(response, 504),
    (_, response) => problem(response, 409, 'in_progress'),
    (_, response) => void response.destroy(),
    (_, response) => {
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': 100 }).write('{"items')
      setImmediate(() => response.destroy())
    },
    (_, response) => void response.writeHead(200, { 'content-type': 'application/json' }).end('{"items":['),
  ]
  for (const trouble of troubles) {
    const { code, tries } = await callOf((seen, response, nth) =>
      nth < 2 ? trouble(seen, response, nth) : json(response, noQueues),
    )
    assert.deepEqual([code, tries], ['ok', 3])
  }
})

test('a call that never succeeds ends after the retries with the last error', async () => {
  const cases: readonly (readonly [Script, string])[] = [
    [(_, response) => problem(response, 503, 'store_busy'), 'store_busy'],
    [(_, response) => page(response, 502), 'store_unavailable'],
    [(_, response) => page(response, 504), 'timeout'],
  ]
  for (const [script, expected] of cases) {
    const { code, tries } = await callOf(script, undefined, { retries: 3 })
    assert.deepEqual([code, tries], [expected, 4])
  }
})

test('an unreachable server gives store_unavailable, with the address and the reason', async () => {
  const port = await freePort()
  const client = createClient(`http://127.0.0.1:${port}`, { backoff: quick, retries: 1, token: 'sesame' })
  const error = await failure(client.call(listQueues))
  assert.equal(error.code, 'store_unavailable')
  assert.match(error.message, new RegExp(`GET /v1/queues at http://127\\.0\\.0\\.1:${port}.*ECONNREFUSED`))
})

async function freePort(): Promise<number> {
  const server = createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as { port: number }
  server.close()
  await once(server, 'close')
  return port
}

test('a mutation keeps one key over its tries, and each call has its own', async () => {
  await using server = await fakeServer((_, response, nth) =>
    nth % 2 === 0 ? problem(response, 503, 'store_busy') : json(response, nth < 4 ? added : noQueues, 200),
  )
  const client = clientOf(server)
  await client.call(addJobs, { body: { kind: 'mail' } })
  await client.call(addJobs, { body: { kind: 'mail' } })
  await client.call(claimJobs)
  await client.call(claimJobs, { idempotencyKey: 'mine' })
  const keys = server.seen.map(({ headers }) => headers['idempotency-key'])
  assert.equal(keys.length, 8)
  for (const at of [0, 2, 4, 6]) assert.equal(keys[at], keys[at + 1])
  assert.equal(new Set(keys).size, 4)
  assert.equal(keys[7], 'mine')
  assert.equal(new Set(server.seen.slice(0, 2).map(({ body }) => body)).size, 1)
})

test('renewing and waking are retried without a key, because a repetition does no harm', async () => {
  for (const call of [
    (client: ReturnType<typeof createClient>) =>
      client.call(renewJob, { params: { id: '1' }, body: { token: 't' } }),
    (client: ReturnType<typeof createClient>) => client.call(wakeQueue, { params: { name: 'mail' } }),
  ]) {
    const { code, tries } = await callOf((seen, response, nth) => {
      assert.equal(seen.headers['idempotency-key'], undefined)
      if (nth === 0) response.destroy()
      else json(response, { leaseEndsAt: 1, cancelRequested: false, queue: 'mail' })
    }, call)
    assert.deepEqual([code, tries], ['ok', 2])
  }
})

test('creating a token is never retried and carries no key', async () => {
  const troubles: readonly Script[] = [
    (_, response) => problem(response, 503, 'store_busy'),
    (_, response) => void response.destroy(),
  ]
  for (const trouble of troubles) {
    const { tries } = await callOf(
      (seen, response, nth) => {
        assert.equal(seen.headers['idempotency-key'], undefined)
        return trouble(seen, response, nth)
      },
      (client) => client.call(createToken, { body: { name: 'ci', scope: 'work' } }),
    )
    assert.equal(tries, 1)
  }
})

test('any request that was never sent is retried, except to an untrusted server', async () => {
  const failing = (code: string, failures: number) => {
    let tries = 0
    const client = createClient('http://127.0.0.1:9', {
      backoff: quick,
      timeoutMs: 2_000,
      fetch: async () => {
        tries++
        if (tries <= failures) throw new TypeError('fetch failed', { cause: { code } })
        const token = { id: '1', name: 'ci', scope: 'work', secret: 's' }
        return Response.json(token, { status: 201 })
      },
    })
    const made = client.call(createToken, { body: { name: 'ci', scope: 'work' } })
    return made.then(
      () => ({ code: 'ok', tries }),
      (error: SignalboxError) => ({ code: error.code, tries }),
    )
  }
  for (const code of ['ECONNREFUSED', 'EAI_AGAIN', 'UND_ERR_CONNECT_TIMEOUT'])
    assert.equal((await failing(code, 3)).tries, 4, code)
  assert.deepEqual(await failing('ECONNRESET', 3), { code: 'store_unavailable', tries: 1 })
  assert.deepEqual(await failing('DEPTH_ZERO_SELF_SIGNED_CERT', 3), { code: 'store_unavailable', tries: 1 })
})

test('calls of guards and the monitor carry a key, and a lock request carries none', async () => {
  await using server = await fakeServer((_, response) => problem(response, 400, 'invalid_argument'))
  const client = clientOf(server)
  const key = 'k'
  await failure(client.once.claim({ key }))
  await failure(client.once.done({ key, token: '1.a' }))
  await failure(client.once.seen({ subject: ['s'], state: 1 }))
  await failure(client.monitor.silence({ match: {}, forMs: 1 }))
  await failure(client.locks.acquire({ operation: 'o', resource: 'r', node: 'n' }))
  await failure(client.once.renew({ key, token: '1.a' }))
  const isKeyed = server.seen.map(({ headers }) => headers['idempotency-key'] !== undefined)
  assert.deepEqual(isKeyed, [true, true, true, true, false, false])
})

test('Retry-After is obeyed, and when it exceeds the deadline the call ends at once', async () => {
  const at: number[] = []
  const patient = await callOf((_, response, nth) => {
    at.push(performance.now())
    if (nth === 0) problem(response, 429, 'too_many', { headers: { 'retry-after': '1' } })
    else json(response, noQueues)
  })
  assert.deepEqual([patient.code, patient.tries], ['ok', 2])
  assert.ok(at[1]! - at[0]! >= 990, `${at[1]! - at[0]!} ms`)

  const begunAt = performance.now()
  const hurried = await callOf((_, response) =>
    problem(response, 429, 'too_many', { headers: { 'retry-after': '3600' } }),
  )
  assert.deepEqual([hurried.code, hurried.tries], ['too_many', 1])
  assert.ok(performance.now() - begunAt < 5_000)
})

test('the deadline holds for a silent server, for a slow body and over all tries', async () => {
  const scripts: Script[] = [
    () => undefined,
    (_, response) => {
      response.writeHead(200, { 'content-type': 'application/json' })
      const timer = setInterval(() => response.write(' '), 20)
      response.on('close', () => clearInterval(timer))
    },
    (_, response) => problem(response, 503, 'store_busy'),
  ]
  const codes: string[] = []
  for (const script of scripts) {
    const begunAt = performance.now()
    const { code } = await callOf(script, (client) => client.call(listQueues, { timeoutMs: 200 }), {
      retries: 100,
    })
    codes.push(code)
    const tookMs = performance.now() - begunAt
    assert.ok(tookMs < 2_000, `${tookMs} ms`)
  }
  assert.deepEqual(codes.slice(0, 2), ['timeout', 'timeout'])
  // The last word of the server, unless the deadline fell into a try.
  assert.ok(['store_busy', 'timeout'].includes(codes[2]!), codes[2])
})

test('the deadline holds even when fetch ignores its signal', async () => {
  const client = createClient('http://x.invalid', {
    timeoutMs: 50,
    fetch: () => new Promise(() => undefined),
  })
  assert.equal((await failure(client.call(listQueues))).code, 'timeout')
  const stuck = new ReadableStream({})
  const headers = { 'content-type': 'application/json' }
  const reading = createClient('http://x.invalid', {
    timeoutMs: 50,
    fetch: async () => new Response(stuck, { headers }),
  })
  assert.equal((await failure(reading.call(listQueues))).code, 'timeout')
})

test('a time-out of a mutation says that its outcome is unknown', async () => {
  const { code, message } = await callOf(
    () => undefined,
    (client) => client.call(addJobs, { body: { kind: 'mail' }, timeoutMs: 50 }),
  )
  assert.equal(code, 'timeout')
  assert.match(message, /unknown whether/)
})

test('a signal ends a call with its reason, before, during and between tries', async () => {
  const reason = new Error('enough')
  await using silent = await fakeServer(() => undefined)
  await using busy = await fakeServer((_, response) => problem(response, 503, 'store_busy'))
  await assert.rejects(clientOf(silent).call(listQueues, { signal: AbortSignal.abort(reason) }), reason)
  assert.equal(silent.seen.length, 0)
  for (const server of [silent, busy]) {
    const controller = new AbortController()
    const call = clientOf(server, { backoff: { baseMs: 5_000 } }).call(listQueues, {
      signal: controller.signal,
    })
    setTimeout(() => controller.abort(reason), 50)
    await assert.rejects(call, reason)
  }
})

test('an answer that is not from Signalbox gives store_unavailable with the received answer', async () => {
  const cases: readonly (readonly [Script, RegExp])[] = [
    [(_, response) => page(response, 200), /200 text\/html.*proxy/],
    [(_, response) => page(response, 404), /404 text\/html/],
    [(_, response) => json(response, { hello: 1 }), /unexpected form/],
    [(_, response) => json(response, { items: 5, cursor: null }), /unexpected form/],
    [(_, response) => json(response, null), /unexpected form/],
    [(_, response) => json(response, 'no', 404), /404 application\/json/],
    [(_, response) => page(response, 302, { location: 'http://127.0.0.1:1/elsewhere' }), /302.*not followed/],
  ]
  for (const [script, words] of cases) {
    const { code, message, tries } = await callOf(script)
    assert.deepEqual([code, tries], ['store_unavailable', 1], message)
    assert.match(message, words)
    assert.doesNotMatch(message, /Bad Gateway/)
  }
})

test('a redirect is not followed, so a token goes nowhere else', async () => {
  await using other = await fakeServer((_, response) => json(response, noQueues))
  const { tries } = await callOf(
    (_, response) => page(response, 307, { location: `${other.url}/v1/queues` }),
    undefined,
    { token: 'sesame' },
  )
  assert.deepEqual([tries, other.seen.length], [1, 0])
})

test('an answer of 10 MB is not read to its end, and a claim may allow more', async () => {
  const big = JSON.stringify({ items: [], cursor: null, filler: 'x'.repeat(10_000_000) })
  const script: Script = (_, response) => {
    response.writeHead(200, { 'content-type': 'application/json' })
    response.end(big)
  }
  const { code, message, tries } = await callOf(script)
  assert.deepEqual([code, tries], ['too_large', 1])
  assert.match(message, /8388608 bytes/)
  assert.equal((await callOf(script, (client) => client.jobs.claim({ limit: 100 }))).code, 'ok')
  assert.equal((await callOf(script, (client) => client.jobs.claim({ limit: 1 }))).code, 'too_large')
})

test('a documented reply is an answer whatever its status, and text is text', async () => {
  await using server = await fakeServer((seen, response) => {
    if (seen.path === '/metrics') response.writeHead(200, { 'content-type': 'text/plain' }).end('up 1\n')
    else json(response, { status: 'unready', version: '1', checks: [] }, 503)
  })
  const client = clientOf(server)
  assert.equal((await client.call(readyz)).status, 'unready')
  assert.equal(await client.call(metrics), 'up 1\n')
  assert.equal(server.seen.length, 2)
})

test('a closed client ends its running calls and refuses new ones', async () => {
  await using server = await fakeServer(() => undefined)
  const client = clientOf(server)
  const call = failure(client.call(listQueues))
  client.close()
  assert.equal((await call).code, 'closed')
  assert.equal((await failure(client.call(listQueues))).code, 'closed')
  assert.equal((await failure(client.stream(jobEvents, { onEvent: () => undefined }))).code, 'closed')
})

test('no error contains a token, whatever fails', async () => {
  const token = 'sbx_canary_0123456789'
  const scripts: Script[] = [
    (_, response) => problem(response, 401, 'unauthorized'),
    (_, response) => page(response, 500),
    (_, response) => void response.destroy(),
    () => undefined,
  ]
  for (const script of scripts) {
    await using server = await fakeServer(script)
    const client = clientOf(server, { token, retries: 0, timeoutMs: 100 })
    const error = await failure(client.call(listQueues))
    assert.doesNotMatch(inspect(error, { depth: 20, showHidden: true }), /canary/)
    assert.doesNotMatch(inspect(client, { depth: 20 }), /canary/)
  }
  for (const bad of [`${token} `, `${token}\r\nx: y`, `${token}ä`, '', 5, null])
    assert.throws(
      () => createClient('http://127.0.0.1', { token: bad as string }),
      (error: SignalboxError) => error.code === 'invalid_argument' && !/canary/.test(inspect(error)),
    )
})

test('an invalid address or option is refused, without showing what may be a secret', () => {
  for (const url of [
    '',
    'x',
    'ftp://x',
    'http://a:sesame@b',
    'http://a?token=sesame',
    'http://a#sesame',
    5,
    null,
  ])
    assert.throws(
      () => createClient(url as string),
      (error: SignalboxError) => error.code === 'invalid_argument' && !/sesame/.test(error.message),
    )
  for (const options of [
    { timeoutMs: 0 },
    { timeoutMs: 2 ** 31 },
    { retries: -1 },
    { fetch: 5 },
    { namespace: '' },
    { backoff: { base: 1 } },
    { tokens: 'x' },
  ])
    assert.throws(() => createClient('http://x', options as ClientOptions), { code: 'invalid_argument' })
})

test('an invalid call is refused before anything is sent', async () => {
  await using server = await fakeServer((_, response) => json(response, noQueues))
  const client = clientOf(server)
  for (const call of [
    () => client.call(getJob, { params: { id: '..' } }),
    () => client.call(getJob, { params: { id: '' } }),
    () => client.call(getJob, { params: {} as { id: string } }),
    () => client.call(listQueues, { timeoutMs: -1 }),
    () => client.call(claimJobs, { idempotencyKey: 'two words' }),
    () => client.call(jobEvents),
    () => client.stream(listQueues, { onEvent: () => undefined }),
  ])
    assert.equal((await failure(call())).code, 'invalid_argument')
  assert.equal(server.seen.length, 0)
})
