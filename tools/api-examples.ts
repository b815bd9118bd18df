import type { Route } from '../src/http/contract/route.ts'

/** One request for every route, as a person would type it. test/house/api-docs.test.ts checks that each is allowed. */
export interface ApiExample {
  readonly params?: Readonly<Record<string, string>>
  readonly query?: Readonly<Record<string, string | number>>
  readonly body?: unknown
}

const id = '01k9z3v8qe0m4t9wq3rb5c7xkd'
const token = '7-3f9a1c5e'
const guardToken = '1763190000000000.9f86d081884c7d65'
const slot = { source: 'courts', timeSlot: '18:00-19:00' }
const channel = {
  type: 'webhook',
  url: 'https://hooks.example.com/changes',
  secret: 'a long secret of yours',
}
const key = { operation: 'deploy', resource: 'web' }
const request = { ...key, node: 'ci-1' }

/** By the route's id. Routes that need nothing are not here. */
export const apiExamples: Readonly<Record<string, ApiExample>> = {
  addJobs: { body: { kind: 'mail', payload: { to: 'ada@example.com' }, uniqueKey: 'welcome-ada' } },
  getOverview: { query: { since: 1_763_190_000_000 } },
  listQueues: { query: { waitMs: 200 } },
  listJobs: { query: { queue: 'default', search: 'state:dead payload.order.id:42', limit: 20 } },
  claimJobs: { body: { queues: ['default'], workerId: 'shell', limit: 1, leaseMs: '30s', waitMs: '20s' } },
  checkHeld: { body: { items: [{ id, token }] } },
  addAlerts: { body: { name: 'on-call', channel, digestMs: '30s' } },
  removeAlerts: { params: { id } },
  getErrorGroup: { params: { fingerprint: '9f86d081884c7d65' } },
  waitForJobs: { body: { ids: [id], waitMs: 20_000 } },
  jobEvents: { query: { queues: 'default,mail' } },
  retryDeadJobs: { body: { queue: 'default', limit: 100 } },
  pruneJobs: { body: { olderThanMs: '7d' } },
  removeJobs: { body: { ids: [id] } },
  bulkJobs: { body: { action: 'retry', search: 'state:dead kind:mail* error:relay', dryRun: true } },
  listBulkOperations: { query: { limit: 20 } },
  getBulkOperation: { params: { id } },
  cancelBulkOperation: { params: { id } },
  getJob: { params: { id }, query: { waitMs: 20_000 } },
  ackJob: { params: { id }, body: { token, result: { sent: true } } },
  nackJob: { params: { id }, body: { token, error: 'the mail server is away', retryInMs: '1m' } },
  renewJob: { params: { id }, body: { token, leaseMs: '30s' } },
  cancelJob: { params: { id } },
  retryJob: { params: { id } },
  logJob: {
    params: { id },
    body: { token, progress: { percent: 40, note: 'row 400 of 1000' }, logs: [{ text: '400 rows are in' }] },
  },
  watchJob: { params: { id } },
  watchQueue: { params: { name: 'default' } },
  jobLogs: { params: { id }, query: { limit: 100 } },
  listWorkers: { query: { queue: 'default' } },
  getWorker: { params: { id: 'mail-1' } },
  quietWorker: { params: { id: 'mail-1' } },
  resumeWorker: { params: { id: 'mail-1' } },
  stopWorker: { params: { id: 'mail-1' }, body: { graceMs: '30s' } },
  reportWorkers: {
    body: {
      renew: [{ id: 'mail-1', session: 'k2f9', mode: 'running', running: [], runningCount: 0 }],
    },
  },
  pauseQueue: { params: { name: 'default' } },
  resumeQueue: { params: { name: 'default' } },
  limitQueue: {
    params: { name: 'default' },
    body: { concurrency: 20, perKey: { concurrency: 2, rate: { count: 100, perMs: '1m' } } },
  },
  unlimitQueue: { params: { name: 'default' } },
  wakeQueue: { params: { name: 'default' } },
  setSchedule: {
    body: {
      name: 'morning-report',
      cron: '0 9 * * 1-5',
      timeZone: 'Asia/Shanghai',
      job: { kind: 'report', payload: { to: 'team' } },
    },
  },
  listSchedules: { query: { limit: 20 } },
  getSchedule: { params: { name: 'morning-report' } },
  removeSchedule: { params: { name: 'morning-report' } },
  pauseSchedule: { params: { name: 'morning-report' } },
  resumeSchedule: { params: { name: 'morning-report' } },
  runSchedule: { params: { name: 'morning-report' } },
  acquireLock: { body: { ...request, ttlMs: '30s', deadlineMs: '5m' } },
  releaseLock: { body: { ...request, token: 7, outcome: 'success', result: { version: '1.4.2' } } },
  renewLock: { body: { ...request, token: 7, ttlMs: '30s', progress: 'half of it' } },
  leaveLock: { body: request },
  listLocks: { query: { operation: 'deploy', limit: 20 } },
  lockState: { query: key },
  lockEvents: { query: { ...key, node: 'ci-1' } },
  evictLock: { body: request },
  claimOnce: { body: { key: 'invoice-2041', leaseMs: '30s', keepMs: '1d' } },
  doneOnce: { body: { key: 'invoice-2041', token: guardToken, result: { sent: true } } },
  failOnce: { body: { key: 'invoice-2041', token: guardToken } },
  renewOnce: { body: { key: 'invoice-2041', token: guardToken, leaseMs: '30s' } },
  forgetOnce: { body: { key: 'invoice-2041' } },
  seenOnce: { body: { subject: ['courts', '18:00-19:00', 'north-2'], state: 'free', windowMs: '5m' } },
  listGuards: { query: { search: 'invoice', limit: 20 } },
  reportChanges: {
    body: {
      taskId: 'crawl-2041',
      ...slot,
      observedAt: 1_763_190_000_000,
      venues: [
        { venueId: 'north-1', state: { free: false } },
        { venueId: 'north-2', state: { free: true, price: 40 } },
      ],
    },
  },
  explainSubject: { query: { ...slot, venueId: 'north-2' } },
  listDecisions: { query: { reason: 'notified_recently', limit: 20 } },
  listNotifications: { query: { status: 'dead', limit: 20 } },
  replayNotification: { params: { id } },
  listSubjects: { query: { source: 'courts', limit: 20 } },
  subscribe: {
    body: { name: 'the club', match: { source: 'courts' }, channel, windowMs: '5m', reconcile: true },
  },
  unsubscribe: { params: { id } },
  createSilence: {
    body: { match: { venueId: { prefix: 'north-' } }, forMs: '2h', comment: 'being painted' },
  },
  endSilence: { params: { id } },
  testChannel: { body: { channel } },
  submitTask: {
    body: {
      service: 'nmt',
      requires: [{ service: 'nmt', where: { pair: 'zh>en' } }],
      payload: { text: '你好' },
      deadlineMs: '30s',
    },
  },
  listTasks: { query: { status: 'waiting', limit: 20 } },
  getTask: { params: { id } },
  taskEvents: { params: { id } },
  cancelTask: { params: { id }, body: { reason: 'the caller hung up' } },
  explainTask: { params: { id } },
  listNodes: { query: { service: 'nmt', limit: 20 } },
  drainNode: { params: { id: 'gpu-7' }, body: { deadlineMs: '5m' } },
  cordonNode: { params: { id: 'gpu-7' }, body: { service: 'nmt' } },
  definePool: { body: { name: 'large', requires: [{ label: 'memoryGb', gte: 40 }] } },
  removePool: { params: { name: 'large' } },
  listTokens: { query: { limit: 20 } },
  createToken: { body: { name: 'gpu-7', scope: 'work', nodes: ['gpu-7'], expiresInMs: '90d' } },
  revokeToken: { params: { id } },
  listAudit: { query: { action: 'lock.evict', limit: 20 } },
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
