import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { Backend } from '../../src/storage/backend.ts'
import type { Candidate } from './candidates.ts'
import { keepApart } from './jobs/apart.ts'
import {
  addOne,
  aJob,
  claim,
  endedJob,
  ids,
  leaseOf,
  runningJob,
  settleOne,
  verdictOf,
} from './jobs/making.ts'

/** Several processes open a backend at once; it shows only its namespace, and refuses calls once it is closed. */
export function openingContract({ name, open, sql }: Candidate): void {
  test('an open backend answers a ping and names its engine', async () => {
    await using backend = await open()
    assert.equal(backend.name, name)
    assert.equal(backend.traits.transactions, sql !== undefined)
    assert.ok(Array.isArray(backend.warnings))
    await backend.ping()
  })

  test('an open backend has the newest schema, and migrating again does nothing', async () => {
    await using backend = await open()
    const status = await backend.migrator.status()
    assert.ok(status.latest >= 1)
    assert.equal(status.current, status.latest)
    assert.deepEqual(status.pending, [])
    assert.deepEqual(await backend.migrator.up(), [])
    assert.deepEqual(await backend.migrator.status(), status)
    if (sql) assert.match(backend.migrator.sql(), /CREATE TABLE/i)
  })

  test.runIf(sql)('several processes that open an empty database at once all succeed', async () => {
    await using database = await sql!.ownDatabase()
    const { url } = database
    const backends = await Promise.all(Array.from({ length: 4 }, () => open({ url, namespace: 'shared' })))
    try {
      for (const backend of backends) {
        const { current, latest } = await backend.migrator.status()
        assert.equal(current, latest)
      }
      const ups = await Promise.all(backends.map(({ migrator }) => migrator.up()))
      assert.deepEqual(ups.flat(), [])
      const [first, ...others] = backends as [Backend, ...Backend[]]
      const id = await addOne(first)
      for (const { jobs } of others) assert.equal((await jobs.find(id))?.id, id)
    } finally {
      await Promise.all(backends.map((backend) => backend.close()))
    }
  })

  test.runIf(sql)('a reopened database has the data that was written', async () => {
    await using database = await sql!.ownDatabase()
    const { url } = database
    const before = await open({ url, namespace: 'kept' })
    const claimed = await runningJob(before, { queue: 'a' })
    const waiting = await addOne(before, { queue: 'b' })
    const ended = await endedJob(before, 'dead', { queue: 'c' })
    const records = await before.jobs.list({ limit: 10 })
    await before.close()

    const after = await open({ url, namespace: 'kept', migrate: false })
    try {
      assert.deepEqual(await after.jobs.list({ limit: 10 }), records)
      assert.deepEqual(ids(records).sort(), [claimed.id, waiting, ended].sort())
      assert.equal(await settleOne(after, claimed), true)
    } finally {
      await after.close()
    }
  })

  test.runIf(sql && !sql.migratesItself)(
    'opening an empty database is refused unless migration is allowed',
    async () => {
      await using database = await sql!.ownDatabase()
      await assert.rejects(open({ url: database.url, migrate: false }), { code: 'schema_missing' })
    },
  )

  test('namespaces do not see each other', async () => {
    await using mine = await open()
    await using yours = await open()
    await keepApart(mine, yours)
  })

  test('the store has its own clock, which moves forward', async () => {
    await using backend = await open()
    const first = await backend.time()
    assert.ok(Number.isSafeInteger(first) && first > 1_600_000_000_000, `${first}`)
    await new Promise((resolve) => setTimeout(resolve, 20))
    assert.ok((await backend.time()) > first)
  })

  test('a wake-up reaches the listeners of its topic until they stop', async () => {
    await using backend = await open()
    let [heard, others] = [0, 0]
    const stop = backend.notifier.listen(['jobs.mail', 'jobs.other'], () => heard++)
    backend.notifier.listen(['jobs.else'], () => others++)
    const { promise, resolve } = Promise.withResolvers<void>()
    backend.notifier.listen(['jobs.mail'], resolve)
    backend.notifier.wake('jobs.mail')
    await promise
    assert.ok(heard >= 1)
    assert.equal(others, 0)
    stop()
    stop()
    const before = heard
    const again = Promise.withResolvers<void>()
    backend.notifier.listen(['jobs.other'], again.resolve)
    backend.notifier.wake('jobs.other')
    await again.promise
    assert.equal(heard, before)
  })

  test('a closed backend refuses every call, and closing it again succeeds', async () => {
    const backend = await open()
    const claimed = await runningJob(backend)
    await backend.close()
    await backend.close()
    const { jobs } = backend
    const lease = leaseOf(claimed)
    const calls: Record<string, () => Promise<unknown>> = {
      add: () => jobs.add([aJob()]),
      claim: () => claim(backend),
      renew: () => jobs.renew([lease], 1_000),
      settle: () => jobs.settle([verdictOf(claimed)]),
      transact: () => jobs.transact(async () => verdictOf(claimed), { timeoutMs: 1_000 }),
      transactAll: () => jobs.transactAll([async () => verdictOf(claimed)], { timeoutMs: 1_000 }),
      outcomes: () => jobs.outcomes([lease]),
      cancelRequests: () => jobs.cancelRequests([lease]),
      reclaim: () => jobs.reclaim(1),
      find: () => jobs.find(claimed.id),
      list: () => jobs.list({ limit: 1 }),
      cancel: () => jobs.cancel(claimed.id),
      retry: () => jobs.retry(claimed.id),
      retryDead: () => jobs.retryDead({ limit: 1 }),
      stats: () => jobs.stats(),
      pause: () => jobs.pause('mail'),
      resume: () => jobs.resume('mail'),
      prune: () => jobs.prune({ olderThanMs: 0, limit: 1 }),
      ping: () => backend.ping(),
      'migrator.status': () => backend.migrator.status(),
      'migrator.up': () => backend.migrator.up(),
    }
    for (const [call, run] of Object.entries(calls)) await assert.rejects(run, { code: 'closed' }, call)
  })

  test.runIf(sql)('closing waits for calls that have started', async () => {
    await using database = await sql!.ownDatabase()
    const { url } = database
    const backend = await open({ url, namespace: 'closing' })
    const jobs = Array.from({ length: 5 }, () => aJob())
    const adds = jobs.map((job) => backend.jobs.add([job]))
    const [outcomes] = await Promise.all([Promise.allSettled(adds), backend.close()])
    await using again = await open({ url, namespace: 'closing' })
    const found = ids(await again.jobs.list({ limit: 10 }))
    // Each call was either executed, and its job exists, or refused, and it does not.
    const done = jobs.filter((_, i) => outcomes[i]!.status === 'fulfilled')
    assert.deepEqual(found.toSorted(), ids(done))
  })
}
