/** What doctor says of what it found; looking itself is tested with the command. */
import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { QueueStats } from '../../jobs/index.ts'
import { resolveConfig } from '../config/config.ts'
import {
  type Finding,
  isLoopback,
  judgeConfiguration,
  judgeMonitor,
  judgeQueues,
  judgeRetention,
  judgeTokens,
  reasonOf,
} from './judging.ts'
import { judgeClocks, judgeRedis, readClock, readFacts } from './probes.ts'
import { judgeProblem } from './server.ts'
import { judgeSchema } from './store.ts'

const brief = (findings: readonly Finding[]) => findings.map(({ level, check }) => `${level} ${check}`)
const configOf = (flags: Readonly<Record<string, unknown>>, env = {}) =>
  resolveConfig({ flags, env, folder: '/nowhere' })

test('a public address needs a token, and TLS in front of it', () => {
  const judge = (host: string, hasTokens: boolean | undefined, env = {}) =>
    brief(judgeConfiguration(configOf({ host, allowedHosts: 'jobs.example.com' }, env), hasTokens))
  assert.deepEqual(judge('127.0.0.1', false), ['ok bind'])
  assert.deepEqual(judge('::1', true), ['ok bind'])
  assert.deepEqual(judge('0.0.0.0', false), ['problem bind', 'warning tls'])
  assert.deepEqual(judge('10.0.0.5', true), ['ok bind', 'warning tls'])
  assert.deepEqual(judge('10.0.0.5', undefined), ['warning bind', 'warning tls'])
  const env = { SIGNALBOX_TOKEN: 'a-secret-of-more-than-thirty-two-characters' }
  const findings = judgeConfiguration(configOf({ host: '10.0.0.5' }, env), false)
  assert.deepEqual(brief(findings), ['ok bind', 'warning tls'])
  assert.doesNotMatch(JSON.stringify(findings), /a-secret/)
})

test('memory stores, private addresses and an unencrypted Redis are named, without passwords', () => {
  const findings = judgeConfiguration(
    configOf({ database: 'memory:', redis: 'redis://me:hush@cache:6379', allowPrivate: '10.0.0.0/8' }),
    false,
  )
  assert.deepEqual(brief(findings), ['ok bind', 'warning channels', 'problem durability', 'warning tls'])
  assert.doesNotMatch(JSON.stringify(findings), /hush/)
  for (const redis of ['redis://127.0.0.1:6379', 'rediss://cache:6379'])
    assert.deepEqual(brief(judgeConfiguration(configOf({ redis }), false)), ['ok bind'])
  assert.ok(isLoopback('[::1]') && isLoopback('127.9.9.9') && !isLoopback('128.0.0.1'))
})

test('an admin token without an end, and one that ends soon, give warnings', () => {
  const base = { namespace: 'default', nodes: null, createdAt: 0, revokedAt: null, live: true }
  const day = 86_400_000
  const found = judgeTokens(
    [
      { ...base, id: '1', name: 'ops', scope: 'admin', expiresAt: null },
      { ...base, id: '2', name: 'old', scope: 'admin', expiresAt: null, live: false },
      { ...base, id: '3', name: 'ci', scope: 'work', expiresAt: null },
      { ...base, id: '4', name: 'soon', scope: 'read', expiresAt: day },
      { ...base, id: '5', name: 'late', scope: 'admin', expiresAt: 90 * day },
    ],
    0,
  )
  assert.deepEqual(
    found.map(({ level, subject }) => [level, subject]),
    [
      ['warning', 'ops (1)'],
      ['warning', 'soon (4)'],
    ],
  )
  assert.deepEqual(brief(judgeTokens([], 0)), ['ok tokens'])
})

test('an older schema names the command to run, a newer one the program to upgrade', () => {
  const judge = (current: number, migrates: boolean, isRunnable = current === 8) =>
    judgeSchema('db', { ...status, current, isRunnable }, migrates)
  const status = { latest: 8, pending: [{ number: 8, name: 'x' }], isBeforeBaseline: false }
  assert.equal(judge(8, true).level, 'ok')
  assert.equal(judge(0, true).level, 'ok')
  assert.equal(judge(7, true).level, 'warning')
  assert.deepEqual([judge(7, false).level, judge(0, false).level], ['problem', 'problem'])
  assert.match(judge(7, false).advice!, /signalbox migrate up/)
  assert.equal(judge(9, true).level, 'problem')
  assert.match(judge(9, true).advice!, /Upgrade Signalbox/)
  assert.equal(judge(9, true, true).level, 'warning')
  const unreleased = { ...status, current: 13, isRunnable: false, isBeforeBaseline: true }
  const { level, text, advice } = judgeSchema('db', unreleased, true)
  assert.equal(level, 'problem')
  assert.match(`${text} ${advice}`, /before the baseline schema of 0\.1\.0\. .*start with an empty database/)
})

test('clocks that differ by more than the question took are named, also those of two stores', async () => {
  const at = (name: string, aheadMs: number, sureToMs = 5) => ({ name, aheadMs, sureToMs })
  assert.deepEqual(brief(judgeClocks([])), [])
  assert.deepEqual(
    judgeClocks([at('db', 3_000), at('redis', -100_000)]).map(({ level }) => level),
    ['warning', 'problem', 'problem'],
  )
  assert.match(judgeClocks([at('db', -3_000)])[0]!.text, /db is 3\.0 s behind that of this machine/)
  assert.equal(judgeClocks([at('slow', 3_000, 2_500)])[0]!.level, 'ok')
  const { aheadMs, sureToMs } = await readClock('x', async () => Date.now() + 5_000)
  assert.ok(Math.abs(aheadMs - 5_000) <= sureToMs + 50, `${aheadMs}`)
})

test('dead jobs, a paused queue with jobs and a late queue are named, each with its queue', () => {
  const line = (queue: string, more: Partial<QueueStats>): QueueStats => ({
    ...{ queue, paused: false, limits: null, scheduled: 0, ready: 0, waiting: 0, running: 0, dead: 0 },
    ...{ approximate: false, oldestReadyAt: null, ...more },
  })
  const findings = judgeQueues(
    [
      line('well', { ready: 5, oldestReadyAt: 70_000 }),
      line('sick', { dead: 1 }),
      line('shut', { paused: true, ready: 2, oldestReadyAt: 0 }),
      line('idle', { paused: true }),
      line('late', { ready: 1, oldestReadyAt: 0 }),
    ],
    100_000,
  )
  assert.deepEqual(
    findings.map(({ level, subject }) => [level, subject]),
    ['sick', 'shut', 'late'].map((queue) => ['warning', queue]),
  )
  assert.deepEqual(brief(judgeQueues([], 0)), ['ok queues'])
})

test('a long history that is never deleted gives a warning', () => {
  assert.equal(judgeRetention('retention', undefined, 10_000).level, 'warning')
  assert.equal(judgeRetention('retention', undefined, 9_999).level, 'ok')
  assert.equal(judgeRetention('--retention', 1_000, 10_000).level, 'ok')
})

test('a Redis that would lose locks is a problem, and one without an append-only file a warning', () => {
  const info = (policy: string, aof: number) =>
    `# Server\r\nredis_version:7.0.15\r\nrole:master\r\nmaxmemory_policy:${policy}\r\naof_enabled:${aof}\r\n`
  assert.deepEqual(brief(judgeRedis('r', readFacts(info('noeviction', 1)))), ['ok store'])
  assert.deepEqual(brief(judgeRedis('r', readFacts(info('allkeys-lru', 0)))), [
    'problem eviction',
    'warning durability',
  ])
  const old = { version: '6.0.1', isReplica: true, evictionPolicy: 'noeviction', hasAppendOnlyFile: true }
  assert.deepEqual(brief(judgeRedis('r', old)), ['problem store', 'problem store'])
})

test('an error of another library shows only its code, because its message may contain a password', () => {
  const error = Object.assign(new Error('no postgres://me:hush@db'), { code: 'ENOTFOUND' })
  assert.equal(reasonOf(error), 'ENOTFOUND')
  assert.equal(reasonOf(new Error('WRONGPASS invalid pair me:hush')), 'WRONGPASS')
  assert.doesNotMatch(reasonOf(new Error('hush')), /hush/)
})

test('dead notifications and channels that do not open are reported with the name of their subscription', () => {
  const none = { dead: [], unreadable: [], plain: 0 }
  const keyed = { hasKey: true, source: 'SIGNALBOX_SECRET_KEY' }
  const keyless = { hasKey: false, source: 'secretKey' }
  assert.deepEqual(brief(judgeMonitor(none, keyless)), ['ok secrets', 'ok notifications'])
  assert.deepEqual(brief(judgeMonitor({ ...none, plain: 1 }, keyless)), [
    'warning secrets',
    'ok notifications',
  ])
  assert.deepEqual(brief(judgeMonitor({ ...none, plain: 1 }, keyed)), ['warning secrets', 'ok notifications'])
  const problems = {
    dead: [{ subscriptionId: 's1', subscription: 'desk', channel: 'slack', count: 3, since: 1 }],
    unreadable: [{ subscriptionId: 's2', subscription: 'office', code: 'secret_sealed', message: 'No key.' }],
    plain: 0,
  }
  const findings = judgeMonitor(problems, keyed)
  assert.deepEqual(
    findings.map(({ level, check, subject }) => `${level} ${check} ${subject}`),
    ['ok secrets SIGNALBOX_SECRET_KEY', 'problem secrets office', 'problem notifications desk'],
  )
  const byServer = [
    ...judgeProblem({ kind: 'channel_sealed', subject: 'office', count: 1, detail: 'No key.' }),
    ...judgeProblem({ kind: 'dead_notifications', subject: 'desk', count: 3, detail: null }),
  ]
  assert.deepEqual(byServer, findings.slice(1))
})
