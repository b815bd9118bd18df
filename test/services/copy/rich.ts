/**
 * A store with rows in every table that a copy carries, made through the library alone, and everything that the library
 * shows of a store, to compare both sides of a copy.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { hourMs, minuteMs, SeriesCell, seriesBounds, stepAt } from '../../../src/fleet/rules/index.ts'
import { type Box, open } from '../../../src/index.ts'

export const namespaces: readonly string[] = ['default', 'Müller & 東京 🚦']

/** Texts that a table of keys must keep apart, and that COPY, JSON and SQL must quote. */
const awkward = 'tab\there, back\\slash, "quotes", \'ticks\', line\nend\r\n, 東京 🚦 \u2028 \\N \\. {"a":1}'

/** The same where a name is asked for. */
const oneLine = awkward.replaceAll(/[\p{Cc}\u2028]/gu, '_')

const times = {
  ...{ waiterLeaseMs: 60_000, streamedTakeUpMs: 2_000, takeUpMs: 10_000, keepMs: 60_000 },
  ...{ lockDelayMs: 0, maxWaiters: 100 },
}

export async function fillRich(url: string): Promise<void> {
  for (const namespace of namespaces) {
    await using box = await open(url, { namespace, migrate: true, contention: false })
    await fillJobs(box)
    await fillMonitor(box)
    await fillOnce(box)
    await fillLocks(box)
    await fillServers(box, namespace)
    await fillSeries(box)
  }
  // The shortest possible lease, so that held jobs and locks expire.
  await sleep(1_100)
}

async function fillJobs({ jobs, backend }: Box): Promise<void> {
  const first = await jobs.add('mail', { text: awkward, list: [1, 2.5, null, true] }, { priority: 7 })
  await jobs.add('mail', null, { uniqueKey: 'Key', delayMs: '2h', tags: ['a', 'b'], backoff: { baseMs: 5 } })
  await jobs.add('mail', awkward, { uniqueKey: 'key ', timeoutMs: 5_000, queue: 'quiet' })
  await jobs.add('mail', 1, { after: [first.id], delayMs: '1h' })
  const unblocked = await jobs.add('mail', 1, { after: [first.id], delayMs: '1h' })
  await backend.dependencies.meet([{ jobId: unblocked.id, dependencyId: first.id }])
  await jobs.add('mail', 2, { lock: { operation: 'deploy', resource: 'eu-1' } })
  await jobs.pause('quiet')
  await jobs.setLimits('tight', {
    concurrency: 3,
    rate: { count: 10, perMs: 60_000 },
    perKey: { concurrency: 1 },
  })
  for (const limitKey of ['ada', 'bob', 'ada'])
    await jobs.add('sum', { limitKey }, { queue: 'tight', limitKey })

  // One job of each end, one that failed and waits, and one whose worker is gone.
  for (const end of ['done', 'dead', 'again', 'gone', 'last', 'cancelled'])
    await jobs.add('end', end, { queue: 'ends', maxAttempts: end === 'dead' || end === 'last' ? 1 : 5 })
  for (const job of await jobs.claim({ queues: ['ends'], limit: 10, leaseMs: 60_000, workerId: 'w1' })) {
    if (job.payload === 'done') {
      await jobs.note(job, {
        progress: { percent: 40, note: oneLine },
        logs: [{ text: awkward, level: 'warn' }, { text: 'second' }],
      })
      await jobs.ack(job, { result: { text: awkward } })
    }
    if (job.payload === 'dead') await jobs.nack(job, { error: new Error(awkward) })
    if (job.payload === 'again') {
      await jobs.note(job, { logs: Array.from({ length: 510 }, (_, index) => ({ text: `line ${index}` })) })
      await jobs.nack(job, { error: new Error('later'), retryInMs: '3h' })
    }
    if (job.payload === 'cancelled') await jobs.nack(job, { snoozeMs: '1h' })
    if (job.payload === 'gone' || job.payload === 'last') await jobs.nack(job, { handBack: true })
  }
  const attempts = await backend.attempts.uncounted(1)
  await backend.attempts.count(attempts.map((attempt) => ({ ...attempt, fingerprint: awkward.slice(0, 16) })))
  const { items } = await jobs.list({ queue: 'ends' })
  await jobs.cancel(items.find(({ payload }) => payload === 'cancelled')!.id)
  await jobs.claim({ queues: ['ends'], limit: 10, leaseMs: 1_000, workerId: 'dies' })
  await jobs.claim({ queues: ['tight'], limit: 2, leaseMs: 1_000, workerId: 'dies' })

  await jobs.schedules.set('report', {
    cron: '0 9 * * 1-5',
    timeZone: 'Asia/Shanghai',
    job: { kind: 'report', payload: awkward },
  })
  await jobs.schedules.set('rest', { everyMs: 3_600_000, job: { kind: 'rest' } })
  await jobs.schedules.pause('rest')
  await jobs.bulk({ action: 'retry', search: 'state:dead' })
}

async function fillMonitor({ monitor }: Box): Promise<void> {
  await monitor.subscribe({
    name: 'desk',
    match: { source: 'booking' },
    channel: { type: 'webhook', url: 'https://example.org/hook', secret: 'hush-hush-hush-hush' },
  })
  await monitor.silence({ match: { venueId: 'court-2' }, comment: oneLine, forMs: '1h' })
  const report = { source: 'booking', timeSlot: '2026-11-20 18:00' }
  for (const [taskId, free] of [
    ['crawl-1', 1],
    ['crawl-2', 2],
  ] as const)
    await monitor.report({
      ...{ ...report, taskId, observedAt: Date.now() },
      venues: ['court-1', 'court-2', 'court-3'].map((venueId) => ({
        venueId,
        state: { free, note: awkward },
      })),
    })
}

async function fillOnce({ once, backend: { guards, monitor } }: Box): Promise<void> {
  await once.run('report-1', async () => ({ rows: 3, text: awkward }))
  await assertThrows(once.run('report-2', async () => Promise.reject(new Error('no'))))
  const ask = { space: 'copied', keepMs: 3_600_000, fingerprint: 'f'.repeat(64), leaseMs: 1 }
  await guards.claim([
    { ...ask, key: 'stuck', mode: 'at-most-once' },
    { ...ask, key: 'failed', mode: 'at-least-once' },
  ])
  await guards.seen([{ window: 'a'.repeat(64), value: 'b'.repeat(64), windowMs: 3_600_000 }])
  await monitor.take({ channel: 'c'.repeat(64), token: 'sender-1', leaseMs: 1 })
}

async function fillLocks({ backend: { locks } }: Box): Promise<void> {
  const key = { operation: 'pull', resource: `nginx:1.27 ${oneLine}` }
  const ask = { wait: true, ttlMs: 1_000, deadlineMs: null, isStreamed: false } as const
  const got = await locks.acquire(key, { ...ask, node: 'n1', requestId: 'r1', want: 'turn' }, times)
  await locks.acquire(key, { ...ask, node: 'n2', requestId: 'r2', want: 'result' }, times)
  await locks.acquire(key, { ...ask, node: 'n3', requestId: 'r3', want: 'turn', deadlineMs: 50_000 }, times)
  await locks.acquire(key, { ...ask, node: 'n4', requestId: 'r4', want: 'result', isStreamed: true }, times)
  await locks.acquire(key, { ...ask, node: 'n5', requestId: 'r5', want: 'turn' }, times)
  if (got.standing.status !== 'granted') throw new Error('the line was not free')
  // The waiter for the result is notified; the waiter for a turn is granted.
  await locks.release(
    key,
    { node: 'n1', requestId: 'r1', token: got.standing.token },
    { outcome: 'success', value: JSON.stringify({ text: awkward }), terminal: false },
    times,
  )
  const other = { operation: 'push', resource: 'nginx' }
  await locks.acquire(other, { ...ask, node: 'n1', requestId: 'r1', want: 'turn' }, times)
}

/** Counts of an hour that is over, merged in each step, and of a minute that is open. */
async function fillSeries({ backend: { series } }: Box): Promise<void> {
  const bounds = seriesBounds as { -readonly [Name in keyof typeof seriesBounds]: number }
  const { openMs } = bounds
  bounds.openMs = 30 * 24 * hourMs
  try {
    const now = await series.now()
    const row = { queue: 'mail', kind: oneLine, ...new SeriesCell().toValues(), added: 3, ready: 2 }
    await series.write('a process', [
      { ...row, bucketAt: stepAt(now - 48 * hourMs, hourMs) },
      { ...row, bucketAt: stepAt(now, minuteMs) },
    ])
    while (await series.merge({ minutesMs: 20 * 24 * hourMs, hoursMs: 90 * 24 * hourMs }));
  } finally {
    bounds.openMs = openMs
  }
}

async function fillServers({ backend }: Box, namespace: string): Promise<void> {
  await backend.tokens.create({
    ...{ id: `token${namespaces.indexOf(namespace)}`, name: oneLine, scope: 'work', namespace },
    ...{ nodes: [oneLine, 'gpu-7'], digest: 'd'.repeat(64), expiresInMs: 3_600_000 },
  })
  await backend.audit.write([
    {
      ...{ id: '01aaaaaaaaaaaaaaaaaaaaaaaa', actor: { id: 'cli', name: null }, action: 'queue.pause' },
      ...{ target: { queue: awkward }, outcome: 'done', code: null },
    },
  ])
  await backend.keyed(aKey).jobs.pause('quiet')
  await backend.cluster.write([
    { kind: 'pool', key: 'gpu', seen: 0, doc: JSON.stringify({ text: awkward }), forMs: null },
    { kind: 'cordon', key: 'node-1', seen: 0, doc: '{}', forMs: null },
    { kind: 'server', key: 'server-1', seen: 0, doc: '{}', forMs: 1_000 },
  ])
}

const aKey = { caller: 'cli', key: 'once-only', fingerprint: 'e'.repeat(64), keepMs: 3_600_000 }

async function assertThrows(done: Promise<unknown>): Promise<void> {
  const failed = await done.then(
    () => false,
    () => true,
  )
  if (!failed) throw new Error('it should have failed')
}

/**
 * Everything that a box shows of a namespace. Some answers depend on the time, so this asks about the far future and
 * past only.
 */
export async function readAll(url: string, namespace: string): Promise<unknown> {
  await using box = await open(url, { namespace, contention: false })
  const { jobs, monitor, backend } = box
  const { items } = await jobs.list({ limit: 500 })
  const found = await Promise.all(
    items.map(async ({ id }) => ({
      ...(await jobs.find(id)),
      logs: await backend.logs.logs(id, { limit: 1_000 }),
    })),
  )
  const lines = await backend.locks.list({ limit: 100 })
  const fleet = await backend.cluster.read(0, 100)
  return {
    jobs: found,
    groups: await backend.attempts.groups({ limit: 100 }),
    stats: await jobs.stats(),
    schedules: await jobs.schedules.list(),
    bulk: await jobs.bulkOperations(),
    subscriptions: await monitor.subscriptions(),
    silences: await monitor.silences(),
    subjects: await monitor.subjects(),
    decisions: await monitor.decisions(),
    notifications: await monitor.notifications(),
    guards: await Promise.all(
      ['copied', 'once', 'monitor.event', 'monitor.task'].map((space) =>
        backend.guards.list({ space, limit: 100 }),
      ),
    ),
    seen: await backend.guards.seen([{ window: 'a'.repeat(64), value: 'b'.repeat(64), windowMs: 1_000 }]),
    waiting: lines.map(({ operation, resource, waiterCount }) => ({ operation, resource, waiterCount })),
    tokens: await backend.tokens.list({ namespace, limit: 100 }),
    audit: await backend.audit.list({ limit: 100 }),
    key: await backend.keyed(aKey).jobs.pause('quiet'),
    // Each store gives its rows new versions, and live servers are not carried.
    fleet: fleet.rows
      .filter(({ kind }) => kind !== 'server')
      .map(({ kind, key, doc }) => ({ kind, key, doc })),
  }
}
