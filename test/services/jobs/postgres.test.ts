/** What only Postgres can get wrong: transactions that fail as a whole, and snapshots older than a lease's end. */
import assert from 'node:assert/strict'
import { Client } from 'pg'
import { describe, test } from 'vitest'
import { openPostgres } from '../../../src/backends/postgres/index.ts'
import { createBell } from '../../../src/core/bell.ts'
import { open } from '../../../src/index.ts'
import type { StoreTransaction, Verdict } from '../../../src/jobs/index.ts'
import { runningJob, verdictOf } from '../../conformance/jobs/making.ts'
import { hasService, ownPostgres } from '../../support/services/own.ts'

describe.skipIf(!hasService('postgres'))('on Postgres', () => {
  test('a member of a group that swallowed a failed statement fails alone, and its rows with it', async () => {
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

  test('a caller whose snapshot is older than the end of the job cannot end it again', async () => {
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

  test('with notify, workers here and elsewhere are told at the commit of the caller, long before their poll', async () => {
    await using place = await ownPostgres()
    await using box = await open(place.url, { migrate: true })
    await using elsewhere = await open(place.url)
    const seen = { here: createBell(), there: createBell() }
    const rare = { pollMs: '1h' }
    await using here = box.jobs.worker({
      ...rare,
      queues: ['here'],
      handlers: { go: () => seen.here.ring() },
    })
    await using there = elsewhere.jobs.worker({
      ...rare,
      queues: ['there'],
      handlers: { go: () => seen.there.ring() },
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
      assert.equal(await seen.here.wait({ timeoutMs: 10_000 }), 'rung')
      assert.equal(await seen.there.wait({ timeoutMs: 10_000 }), 'rung')
      await assert.rejects(box.jobs.add('go', null, { notify: 'yes' as never }), { code: 'invalid_argument' })
    } finally {
      await client.end()
    }
  })
})
