/** Faults that only Postgres can have: transactions that fail as a whole, and snapshots older than a lease's end. */
import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { Client } from 'pg'
import { describe, onTestFinished, test, vi } from 'vitest'
import { createNotifier } from '../../../src/core/notifier.ts'
import { open } from '../../../src/index.ts'
import type { StoreTransaction, Verdict } from '../../../src/jobs/index.ts'
import { openPostgres } from '../../../src/storage/postgres/index.ts'
import { claimStatement } from '../../../src/storage/postgres/jobs/claim.ts'
import { aJob, claim, runningJob, until, verdictOf } from '../../conformance/jobs/making.ts'
import { hasService, ownPostgres } from '../../support/services/own.ts'

describe.skipIf(!hasService('postgres'))('on Postgres', () => {
  test('a transaction of a group that swallowed a failed statement fails alone, with its rows', async () => {
    await using place = await ownPostgres()
    await using backend = await openPostgres(place.url, { namespace: 'default', migrate: true })
    const client = new Client(place.url)
    await client.connect()
    try {
      await client.query('CREATE TABLE effect (job text)')
      const claimed = [await runningJob(backend), await runningJob(backend), await runningJob(backend)]
      const work =
        (nr: number, isBad: boolean) =>
        async (tx: StoreTransaction): Promise<Verdict> => {
          await tx.query('INSERT INTO effect VALUES ($1)', [nr])
          if (isBad) await tx.query('SELECT * FROM nowhere').catch(() => undefined)
          return verdictOf(claimed[nr]!)
        }
      const answers = await backend.jobs.transactAll([work(0, true), work(1, false), work(2, false)], {
        timeoutMs: 0,
      })
      assert.equal((answers[0] as { error: { code: string } }).error.code, '42P01')
      assert.deepEqual(answers.slice(1), [undefined, undefined])
      const { rows } = await client.query('SELECT job FROM effect ORDER BY job')
      assert.deepEqual(
        rows.map(({ job }) => job),
        ['1', '2'],
      )
      const states = await Promise.all(claimed.map(async ({ id }) => (await backend.jobs.find(id))?.state))
      assert.deepEqual(states, ['running', 'completed', 'completed'])
    } finally {
      await client.end()
    }
  })

  test('jobs that are added in front or become due during a backlog are claimed next', async () => {
    await using place = await ownPostgres()
    await using box = await open(place.url, { migrate: true })
    await using other = await open(place.url)
    const claim = async () => (await box.jobs.claim({ limit: 100 })).map(({ kind }) => kind)
    await box.jobs.addMany(Array.from({ length: 401 }, () => ({ kind: 'plain' })))
    assert.equal((await claim()).length, 100)
    await other.jobs.add('urgent', {}, { priority: 5 })
    const due = await other.jobs.add('due', {}, { priority: 9, delayMs: 50 })
    await new Promise((resolve) => setTimeout(resolve, 110))
    assert.deepEqual((await claim()).slice(0, 3), ['due', 'urgent', 'plain'])
    assert.equal((await other.jobs.find(due.id))?.state, 'running')

    await other.jobs.add('urgent', {}, { priority: 5 })
    const rest = [...(await claim()), ...(await claim()), ...(await claim())]
    assert.deepEqual([rest.length, rest.includes('urgent')], [204, true])
  })

  test('a claim is one statement, and so is an add with its wake-up', async () => {
    await using place = await ownPostgres()
    await using backend = await openPostgres(place.url, { namespace: 'default', migrate: true })
    const query = vi.spyOn(Client.prototype, 'query')
    onTestFinished(() => query.mockRestore())
    /** The statements since the last call, by name. */
    const sent = () => {
      const names = query.mock.calls.map(([statement]) => (statement as { readonly name?: string }).name)
      query.mockClear()
      return names
    }
    const claim = async (queues = ['mail']) => {
      const request = { queues, kinds: null, workerId: 'w', limit: 1, leaseMs: 60_000 }
      return (await backend.jobs.claim(request)).map(({ kind }) => kind)
    }
    await backend.jobs.add([aJob(), aJob()], undefined, ['jobs:mail'])
    await backend.jobs.add([aJob()], undefined, ['jobs:mail'])
    assert.deepEqual(sent(), ['sb_add_alike_waking', 'sb_add_alike'], 'a wake-up right behind another waits')
    await claim()
    await claim(['other', 'mail'])
    await claim(['other'])
    assert.deepEqual(sent(), ['sb_claim', 'sb_claim', 'sb_claim'])

    await backend.jobs.add([aJob({ kind: 'due', priority: 9, due: { delayMs: 5 } })])
    await new Promise((resolve) => setTimeout(resolve, 50))
    sent()
    assert.deepEqual(await claim(), ['due'], 'what fell due goes first')
    assert.deepEqual(sent(), ['sb_claim', 'sb_prepare_claim', 'sb_claim'])
    assert.deepEqual(await claim(), ['welcome'])
    assert.deepEqual(await claim(), [])
    assert.deepEqual(sent(), ['sb_claim', 'sb_claim'])

    await backend.jobs.setLimits('scarce', { concurrency: 1, rate: null, perKey: null })
    await claim(['scarce'])
    sent()
    await claim()
    assert.deepEqual(sent(), ['sb_claim'], 'the limits of another queue do not matter')
  })

  test('a claim never reads jobs that are due later, whatever the planner prefers', async () => {
    await using place = await ownPostgres()
    await using backend = await openPostgres(place.url, { namespace: 'default', migrate: true })
    await backend.jobs.add(Array.from({ length: 2_000 }, () => aJob({ due: { delayMs: 3_600_000 } })))
    // Without settings, as behind a pooler.
    const client = new Client(place.url)
    await client.connect()
    try {
      await client.query('ANALYZE')
      await client.query('SET plan_cache_mode = force_generic_plan')
      const { name, text } = claimStatement('public')
      await client.query(`PREPARE ${name} AS ${text}`)
      const { rows } = await client.query(`EXPLAIN EXECUTE ${name} (
          'default', '{mail,other}', NULL, 1, '{n}', '{w}', '{1000}', false, 0, 0, 'a', '{1}')`)
      const plan = rows.map((row) => row['QUERY PLAN']).join('\n')
      assert.match(plan, /using job_queue_scheduled on job_queue/)
      assert.match(plan, /using job_queue_running on job_queue/)
      assert.match(plan, /using job_queue_ready on job_queue/)
      assert.doesNotMatch(plan, /Seq Scan on job_queue/)
    } finally {
      await client.end()
    }
  })

  test('deleted jobs that an old snapshot keeps do not disturb the order of ready jobs', async () => {
    await using place = await ownPostgres()
    await using backend = await openPostgres(place.url, { namespace: 'default', migrate: true })
    await using other = await openPostgres(place.url, { namespace: 'default', migrate: false })
    const [holder, client] = [new Client(place.url), new Client(place.url)]
    await Promise.all([holder.connect(), client.connect()])
    try {
      await holder.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
      await holder.query('SELECT FROM job_queue')
      await client.query(`
INSERT INTO job_queue (namespace, id, queue, kind, payload, priority, state, max_attempts, run_at, created_at, updated_at)
SELECT 'default', nr::text, 'mail', 'gone', '', 0, 'scheduled', 1, nr, 0, 0 FROM generate_series(1, 80000) nr`)
      await client.query('DELETE FROM job_queue')
      const claim = async () => {
        const request = { queues: ['mail'], kinds: null, workerId: 'w', limit: 1, leaseMs: 60_000 }
        return (await backend.jobs.claim(request)).map(({ kind }) => kind)
      }
      // After a slow claim the next look at the front comes a moment later. So it is where the machine froze; it would
      // be so each time if a claim had to read deleted rows.
      const seconds: unknown[] = []
      for (let tries = 0; tries < 5 && !seconds.includes('urgent'); tries++) {
        await backend.jobs.add([aJob(), aJob()])
        assert.deepEqual(await claim(), ['welcome'])
        await other.jobs.add([aJob({ kind: 'urgent', priority: 9 })])
        seconds.push(...(await claim()))
        while ((await claim()).length > 0);
      }
      assert.ok(seconds.includes('urgent'), `${seconds}`)
    } finally {
      await Promise.all([holder.end(), client.end()])
    }
  })

  test('a reclaim finds expired leases behind any number that it cannot take back', async () => {
    await using place = await ownPostgres()
    await using backend = await openPostgres(place.url, { namespace: 'default', migrate: true })
    const holder = new Client(place.url)
    await holder.connect()
    try {
      const count = 250
      await backend.jobs.add(Array.from({ length: count + 1 }, () => aJob()))
      for (let nr = 0; nr < count; nr++) await claim(backend, { limit: 1 })
      await claim(backend, { limit: 1, workerId: 'gone' })
      await holder.query('UPDATE job_queue SET lease_ends_at = 1 WHERE worker_id <> $1', ['gone'])
      await holder.query('UPDATE job_queue SET lease_ends_at = 2 WHERE worker_id = $1', ['gone'])
      await holder.query('BEGIN')
      await holder.query('SELECT FROM job_queue WHERE worker_id <> $1 FOR UPDATE', ['gone'])
      // If everything froze for a moment, one claim may end before it has looked behind all of them.
      await until('it is taken', async () => (await claim(backend, { limit: 1 })).length === 1)
    } finally {
      await holder.end()
    }
  })

  test('a job is added even when the database refuses its wake-up', async () => {
    await using place = await ownPostgres()
    const client = new Client(place.url)
    await client.connect()
    try {
      // The error of Postgres when a listener does not read.
      await client.query(`
CREATE FUNCTION public.pg_notify(text, text) RETURNS void LANGUAGE plpgsql AS
  $$ BEGIN RAISE program_limit_exceeded USING MESSAGE = 'too many notifications in the NOTIFY queue'; END $$`)
      const { pathname } = new URL(place.url)
      await client.query(`ALTER DATABASE ${pathname.slice(1)} SET search_path = public, pg_catalog`)
    } finally {
      await client.end()
    }
    await using box = await open(place.url, { migrate: true })
    const { id } = await box.jobs.add('mail')
    await box.jobs.add('mail')
    assert.deepEqual(
      (await box.jobs.claim({ limit: 3 })).map((job) => job.id === id),
      [true, false],
    )
  })

  test('a caller whose snapshot is older than the end of the job cannot settle it again', async () => {
    await using place = await ownPostgres()
    await using box = await open(place.url, { migrate: true })
    const client = new Client(place.url)
    await client.connect()
    try {
      const { id } = await box.jobs.add('pay')
      const [job] = await box.jobs.claim()
      await client.query('BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1 FROM job_history LIMIT 1')
      await box.jobs.ack(job!)
      await assert.rejects(box.jobs.nack(job!, { tx: client }), { code: '40001' })
      await client.query('ROLLBACK')
      assert.equal((await box.jobs.find(id))?.state, 'completed')
      assert.deepEqual(await box.jobs.claim(), [])
    } finally {
      await client.end()
    }
  })

  test("with notify, workers in all processes wake at the caller's commit, long before their poll", async () => {
    await using place = await ownPostgres()
    await using box = await open(place.url, { migrate: true })
    await using elsewhere = await open(place.url)
    const seen = { here: createNotifier(), there: createNotifier() }
    const rare = { pollMs: '1h' as const }
    await using here = box.jobs.worker({
      ...rare,
      queues: ['here'],
      handlers: { go: () => seen.here.wake() },
    })
    await using there = elsewhere.jobs.worker({
      ...rare,
      queues: ['there'],
      handlers: { go: () => seen.there.wake() },
    })
    await Promise.all([here.start(), there.start()])
    // Both have looked, found nothing and listen.
    await new Promise((resolve) => setTimeout(resolve, 300))
    const client = new Client(place.url)
    await client.connect()
    try {
      await client.query('BEGIN')
      await box.jobs.add('go', null, { queue: 'here', tx: client, notify: true })
      await box.jobs.addMany([{ kind: 'go', queue: 'there' }], { tx: client, notify: true })
      assert.equal(await seen.there.wait({ timeoutMs: 100 }), 'timeout')
      await client.query('COMMIT')
      assert.equal(await seen.here.wait({ timeoutMs: 10_000 }), 'woken')
      assert.equal(await seen.there.wait({ timeoutMs: 10_000 }), 'woken')
      await assert.rejects(box.jobs.add('go', null, { notify: 'yes' as never }), { code: 'invalid_argument' })
    } finally {
      await client.end()
    }
  })

  test('a new listener is called once the database listens, because it missed earlier wake-ups', async () => {
    await using place = await ownPostgres()
    await using backend = await openPostgres(place.url, { namespace: 'default', migrate: true })
    // The first listener opens the connection; the other's channel is added to it.
    for (const { notifier } of [backend, backend.within('other')]) {
      const wakeUps = createNotifier()
      notifier.listen(['jobs:mail'], () => wakeUps.wake())
      assert.equal(await wakeUps.wait({ timeoutMs: 10_000 }), 'woken')
    }
  })

  test('concurrent claims for the same queues share statements, at most two at a time', async () => {
    await using place = await ownPostgres()
    await using backend = await openPostgres(place.url, { namespace: 'default', migrate: true })
    const client = new Client(place.url)
    await client.connect()
    try {
      const jobs = Array.from({ length: 30 }, () => aJob())
      await backend.jobs.add(jobs)
      const waiting = async () => {
        const { rows } = await client.query(`
          SELECT count(*) FROM pg_locks
          WHERE NOT granted AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`)
        return Number(rows[0].count)
      }
      await client.query('BEGIN; LOCK TABLE job_queue IN ACCESS EXCLUSIVE MODE')
      const request = { queues: [jobs[0]!.queue], kinds: null, limit: 10, leaseMs: 30_000 }
      const claim = (workerId: string) => backend.jobs.claim({ ...request, workerId })
      const first = claim('mine')
      await until('the first waits', async () => (await waiting()) === 1)
      const others = ['mine', 'another'].map(claim)
      await until('the others wait too', async () => (await waiting()) === 2)
      await sleep(50)
      assert.equal(await waiting(), 2, 'the others share a statement')
      await client.query('COMMIT')
      const claimed = await Promise.all([first, ...others])
      assert.deepEqual(
        claimed.map((records) => [records.length, records[0]!.workerId]),
        [
          [10, 'mine'],
          [10, 'mine'],
          [10, 'another'],
        ],
      )
      const ids = claimed.flat().map(({ id }) => id)
      assert.equal(new Set(ids).size, 30)
      const nonces = claimed.map(([record]) => record!.token.split('.')[1])
      assert.equal(new Set(nonces).size, 3, 'each claim has its own secret')
    } finally {
      await client.end()
    }
  })
})
