/** Every wait ends with its token, on every server of a store. The route table lists the routes that may wait. */
import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { createServer } from 'signalbox/server'
import { describe, test } from 'vitest'
import { WebSocket } from 'ws'
import { createTokens, type TokenWithSecret } from '../../../src/access/index.ts'
import { mayWait, nodesPath, type Route, routes } from '../../../src/http/contract/index.ts'
import type { Backend } from '../../../src/storage/backend.ts'
import { aNamespace, type Candidate, candidates } from '../../conformance/candidates.ts'
import { within } from '../../support/deadline.ts'

const bootstrap = 'bootstrap-secret-of-32-characters'
const endsMs = 1_000

/** Parameters that a route needs besides `waitMs` before it waits. A route that is not here needs none. */
const needs: Readonly<Record<string, (stage: Stage) => Promise<Need>>> = {
  claimJobs: async () => ({ body: { queues: ['empty'] } }),
  getJob: async (stage) => ({ params: { id: await addJob(stage) } }),
  waitForJobs: async (stage) => ({ body: { ids: [await addJob(stage)] } }),
  watchJob: async (stage) => ({ params: { id: await addJob(stage) } }),
  lockEvents: async () => ({ query: { operation: 'pull', resource: 'r' } }),
  taskEvents: async ({ ask }) => {
    const submitted = await ask('POST', '/v1/tasks', { service: 'nmt', payload: {} })
    return { params: { id: (submitted as { taskId: string }).taskId } }
  },
}

/** A job that does not end. */
async function addJob({ ask }: Stage): Promise<string> {
  return ((await ask('POST', '/v1/jobs', { kind: 'slow', queue: 'held' })) as { id: string }).id
}

interface Need {
  readonly params?: Readonly<Record<string, string>>
  readonly query?: Readonly<Record<string, string>>
  readonly body?: object
}

interface Stage {
  /** Where the waits are. */
  readonly url: string
  readonly token: TokenWithSecret
  /** Asks the server where the waits are, with the token. */
  ask(method: string, path: string, body?: object): Promise<unknown>
}

/** The end of a wait. */
type Ending = string

const waiting = routes.filter((route) => mayWait(route) || route.replyType === 'events')

async function beginRoute(route: Route, stage: Stage): Promise<Ending> {
  const { params = {}, query = {}, body }: Need = (await needs[route.id]?.(stage)) ?? {}
  const path = route.path.replaceAll(/\{(\w+)\}/g, (_, name: string) => params[name] ?? 'a')
  const isStream = route.replyType === 'events'
  const waitMs = isStream || route.method !== 'GET' ? {} : { waitMs: '30000' }
  const response = fetch(`${stage.url}${path}?${new URLSearchParams({ ...query, ...waitMs })}`, {
    method: route.method,
    headers: { authorization: `Bearer ${stage.token.secret}`, 'content-type': 'application/json' },
    ...(route.method === 'GET' ? {} : { body: JSON.stringify({ waitMs: 30_000, ...body }) }),
  })
  return endOf(response, isStream)
}

async function endOf(answering: Promise<Response>, isStream: boolean): Promise<Ending> {
  const response = await answering
  const text = await response.text()
  if (!isStream) return `${response.status} ${text}`
  return `${response.status} ${text.slice(text.lastIndexOf('event:'))}`
}

async function beginNode({ url, token }: Stage): Promise<Ending> {
  const headers = { authorization: `Bearer ${token.secret}` }
  const socket = new WebSocket(url.replace('http:', 'ws:') + nodesPath, { headers })
  const { promise: ended, resolve } = Promise.withResolvers<Ending>()
  socket.on('close', (code, reason) => resolve(`${code} ${reason}`))
  const { promise: welcome, resolve: welcomed } = Promise.withResolvers<unknown>()
  socket.on('message', welcomed)
  const services = [{ name: 'asr', slots: 1 }]
  socket.on('open', () =>
    socket.send(JSON.stringify({ type: 'hello', nodeId: 'n1', instanceId: 'i1', services })),
  )
  await within(10_000, 'the welcome', welcome)
  return ended
}

type JobCalls = Partial<Pick<Backend['jobs'], 'stats' | 'claim'>>

/** The same backend with some calls about jobs changed. */
function withJobCalls(backend: Backend, change: (jobs: Backend['jobs']) => JobCalls): Backend {
  return changed(backend, {
    within: (namespace: string) => {
      const stores = backend.within(namespace)
      const jobsOf = ({ jobs }: Pick<Backend, 'jobs'>) => changed(jobs, change(jobs))
      const keyed: Backend['keyed'] = (key) => ({ jobs: jobsOf(stores.keyed(key)) })
      return changed(stores, { jobs: jobsOf(stores), keyed })
    },
  })
}

/** Counting never ends: requests that may wait for a count wait. */
const countForEver = (): JobCalls => ({ stats: () => new Promise(() => {}) })

function changed<Target extends object>(target: Target, changes: object): Target {
  return new Proxy(target, {
    get(_, name) {
      if (name in changes) return Reflect.get(changes, name)
      const value: unknown = Reflect.get(target, name, target)
      return typeof value === 'function' ? value.bind(target) : value
    },
  })
}

/** Two servers on one store, or one where the store belongs to one process. */
async function servers(candidate: Candidate, change: (jobs: Backend['jobs']) => JobCalls = countForEver) {
  const namespace = aNamespace()
  const backend = await candidate.open({ namespace })
  const other = candidate.isShared ? await candidate.open({ namespace }) : backend
  const first = createServer({ box: { backend }, port: 0, bootstrap: [bootstrap] })
  const second = createServer({
    box: { backend: withJobCalls(other, change) },
    port: 0,
    graceMs: 100,
    bootstrap: [bootstrap],
  })
  const [{ url: firstUrl }, { url }] = [await first.listen(), await second.listen()]
  const makeToken = (expiresInMs?: number) =>
    createTokens({ store: backend.tokens }).create({ name: 'n', scope: 'work', namespace, expiresInMs })
  const request = async (base: string, secret: string, method: string, path: string, body?: object) => {
    const response = await fetch(base + path, {
      method,
      headers: { authorization: `Bearer ${secret}`, 'content-type': 'application/json' },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    })
    const answer = await response.json()
    assert.ok(response.ok, `${method} ${path}: ${JSON.stringify(answer)}`)
    return answer
  }
  return {
    url,
    backend,
    makeToken,
    stageOf: (token: TokenWithSecret): Stage => ({
      url,
      token,
      ask: (method, path, body) => request(url, token.secret, method, path, body),
    }),
    /** Asks the other server. */
    ask: (secret: string, method: string, path: string, body?: object) =>
      request(firstUrl, secret, method, path, body),
    async [Symbol.asyncDispose]() {
      await Promise.all([first.close(), second.close()])
      await backend.close()
      if (other !== backend) await other.close()
    },
  }
}

/** The greatest delay of the store and the timers during some work. */
async function worstDelay(backend: Backend, during: Promise<unknown>): Promise<number> {
  let worst = 0
  let isOver = false
  const over = () => {
    isOver = true
  }
  during.then(over, over)
  while (!isOver) {
    const begunAt = performance.now()
    await sleep(20)
    await backend.tokens.find(['a'])
    worst = Math.max(worst, performance.now() - begunAt - 20)
  }
  return worst
}

/** Ends all waits within the time, or names those that are still open; allows for a frozen machine. */
async function assertEnds(
  backend: Backend,
  waits: ReadonlyMap<string, Promise<Ending>>,
  end: () => Promise<unknown>,
): Promise<void> {
  const open = new Set(waits.keys())
  for (const [name, wait] of waits) {
    const over = () => void open.delete(name)
    wait.then(over, over)
  }
  await sleep(300)
  assert.deepEqual([...open], [...waits.keys()], 'all of them wait')
  await end()
  const endedAt = performance.now()
  const took = new Map<string, number>()
  const all = Promise.all(
    [...waits].map(async ([name, wait]) => {
      await wait
      took.set(name, performance.now() - endedAt)
    }),
  )
  const worst = await within(10_000, `the end of ${[...open].join(', ')}`, worstDelay(backend, all))
  for (const [name, ms] of took) assert.ok(ms <= endsMs + 2 * worst, `${name} went on for ${ms} ms`)
  for (const [name, wait] of waits) assert.match(await wait, endingOf(name), name)
}

function endingOf(name: string): RegExp {
  if (name === 'node') return /^4401 The token was revoked or has expired/
  const route = waiting.find(({ id }) => id === name)!
  if (route.replyType === 'events') return /^200 event: error\ndata: \{"code":"unauthorized".*revoked/
  return /^401 \{.*"code":"unauthorized".*revoked/
}

async function beginAll(stage: Stage): Promise<ReadonlyMap<string, Promise<Ending>>> {
  const waits = new Map([['node', beginNode(stage)]])
  for (const route of waiting) waits.set(route.id, beginRoute(route, stage))
  await sleep(700)
  return waits
}

for (const candidate of candidates()) {
  // The engines run side by side: most of their time is waiting.
  describe(candidate.title, { concurrent: true }, () => {
    test('the list of routes that may wait is complete', { concurrent: false }, () => {
      const ids = [
        'claimJobs',
        'getJob',
        'waitForJobs',
        'watchJob',
        'watchQueue',
        'listQueues',
        'getOverview',
        'events',
        'jobEvents',
        'lockEvents',
        'taskEvents',
      ]
      for (const id of ids)
        assert.ok(
          waiting.some((route) => route.id === id),
          id,
        )
    })

    test('every wait ends within a second after its token is revoked, also on another server', {
      concurrent: false,
    }, async () => {
      await using stage = await servers(candidate)
      const token = await stage.makeToken()
      const waits = await beginAll(stage.stageOf(token))
      await assertEnds(stage.backend, waits, () => stage.ask(bootstrap, 'DELETE', `/v1/tokens/${token.id}`))
    })

    test('every wait ends within a second after its token expires', { concurrent: false }, async () => {
      await using stage = await servers(candidate)
      const token = await stage.makeToken(6_000)
      const waits = await beginAll(stage.stageOf(token))
      const isOver = async () => (await stage.backend.tokens.find([token.id]))[0]?.live === false
      await assertEnds(stage.backend, waits, async () => {
        while (!(await isOver())) await sleep(5)
      })
    })

    test('a claim whose token was revoked takes no job', { concurrent: false }, async () => {
      await using stage = await servers(candidate)
      const [worker, owner] = [await stage.makeToken(), await stage.makeToken()]
      const claims = [claim(stage, worker), claim(stage, worker), claim(stage, worker, 'a-key')]
      await sleep(700)
      await stage.ask(bootstrap, 'DELETE', `/v1/tokens/${worker.id}`)
      for (const { status } of await within(5_000, 'the end of the claims', Promise.all(claims)))
        assert.equal(status, 401)
      const { id } = (await stage.ask(owner.secret, 'POST', '/v1/jobs', { kind: 'pay' })) as Job
      await sleep(200)
      const job = (await stage.ask(owner.secret, 'GET', `/v1/jobs/${id}`)) as Job
      assert.deepEqual([job.state, job.attempt], ['ready', 0])
    })

    for (const key of [undefined, 'a-key']) {
      const keyed = key === undefined ? '' : ', also with a key'
      const title = `jobs that were claimed while their token was revoked are handed back${keyed}`
      test(title, { concurrent: false }, async () => {
        // The store has claimed, and its answer is slow.
        const slow = (jobs: Backend['jobs']): JobCalls => ({
          claim: async (request) => {
            const claimed = await jobs.claim(request)
            if (claimed.length > 0) await sleep(2_000)
            return claimed
          },
        })
        await using stage = await servers(candidate, slow)
        const [worker, owner] = [await stage.makeToken(), await stage.makeToken()]
        const { id } = (await stage.ask(owner.secret, 'POST', '/v1/jobs', { kind: 'pay' })) as Job
        const look = async () => (await stage.ask(owner.secret, 'GET', `/v1/jobs/${id}`)) as Job
        for (const waitMs of key === undefined ? [30_000, 0] : [30_000]) {
          const token = waitMs === 0 ? await stage.makeToken() : worker
          const claiming = claim(stage, token, key, waitMs)
          while ((await look()).state !== 'running') await sleep(10)
          await stage.ask(bootstrap, 'DELETE', `/v1/tokens/${token.id}`)
          assert.equal((await within(1_900, 'the end of the claim', claiming)).status, 401)
          while ((await look()).state !== 'ready') await sleep(10)
          assert.equal((await look()).attempt, 0, 'no attempt was burnt')
        }
      })
    }
  })
}

interface Job {
  readonly id: string
  readonly state: string
  readonly attempt: number
}

function claim({ url }: { url: string }, token: TokenWithSecret, key?: string, waitMs = 30_000) {
  return fetch(`${url}/v1/jobs/claim`, {
    method: 'POST',
    headers: {
      authorization: `Bearer ${token.secret}`,
      'content-type': 'application/json',
      ...(key === undefined ? {} : { 'idempotency-key': key }),
    },
    body: JSON.stringify({ waitMs }),
  })
}
