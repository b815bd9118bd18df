import type { Route } from '../src/wire/route.ts'

/** One request for every route, as a person would type it. test/house/apidocs.test.ts checks that each is allowed. */
export interface ApiExample {
  readonly params?: Readonly<Record<string, string>>
  readonly query?: Readonly<Record<string, string | number>>
  readonly body?: unknown
}

const id = '01k9z3v8qe0m4t9wq3rb5c7xkd'
const token = '7-3f9a1c5e'
const key = { operation: 'deploy', resource: 'web' }
const request = { ...key, node: 'ci-1' }

/** By the route's id. Routes that need nothing are not here. */
export const apiExamples: Readonly<Record<string, ApiExample>> = {
  addJobs: { body: { kind: 'mail', payload: { to: 'ada@example.com' }, uniqueKey: 'welcome-ada' } },
  listJobs: { query: { queue: 'default', state: 'dead', limit: 20 } },
  claimJobs: { body: { queues: ['default'], workerId: 'shell', limit: 1, leaseMs: '30s', waitMs: '20s' } },
  checkHeld: { body: { items: [{ id, token }] } },
  jobEvents: { query: { queues: 'default,mail' } },
  retryDeadJobs: { body: { queue: 'default', limit: 100 } },
  pruneJobs: { body: { olderThanMs: '7d' } },
  getJob: { params: { id } },
  ackJob: { params: { id }, body: { token, result: { sent: true } } },
  nackJob: { params: { id }, body: { token, error: 'the mail server is away', retryInMs: '1m' } },
  renewJob: { params: { id }, body: { token, leaseMs: '30s' } },
  cancelJob: { params: { id } },
  retryJob: { params: { id } },
  pauseQueue: { params: { name: 'default' } },
  resumeQueue: { params: { name: 'default' } },
  wakeQueue: { params: { name: 'default' } },
  acquireLock: { body: { ...request, ttlMs: '30s', deadlineMs: '5m' } },
  releaseLock: { body: { ...request, token: 7, outcome: 'success', result: { version: '1.4.2' } } },
  renewLock: { body: { ...request, token: 7, ttlMs: '30s', progress: 'half of it' } },
  leaveLock: { body: request },
  listLocks: { query: { operation: 'deploy', limit: 20 } },
  lockState: { query: key },
  lockEvents: { query: { ...key, node: 'ci-1' } },
  evictLock: { body: request },
  listTokens: { query: { limit: 20 } },
  createToken: { body: { name: 'the mail workers', scope: 'work', expiresInMs: '90d' } },
  revokeToken: { params: { id } },
}

const base = 'http://127.0.0.1:7420'

/** The example as a line for the shell. */
export function printCurl(route: Route): string {
  const { params = {}, query = {}, body } = apiExamples[route.id] ?? {}
  const path = route.path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(params[name] ?? ''))
  const search = Object.entries(query).map(
    ([name, value]) => `${name}=${encodeURIComponent(value).replaceAll('%2C', ',')}`,
  )
  const url = `${base}${path}${search.length > 0 ? `?${search.join('&')}` : ''}`
  const words = [
    'curl',
    route.replyType === 'events' && '-N',
    route.method !== 'GET' && `-X ${route.method}`,
    search.length > 0 ? quote(url) : url,
    body !== undefined && "-H 'Content-Type: application/json'",
    body !== undefined && `-d ${quote(JSON.stringify(body))}`,
  ]
  return words.filter(Boolean).join(' ')
}

function quote(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`
}
