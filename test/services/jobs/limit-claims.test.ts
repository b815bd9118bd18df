/** Claims from queues with limits on Postgres: which rows they wait for, skip, and find behind others. */
import assert from 'node:assert/strict'
import { Client } from 'pg'
import { describe, onTestFinished, test, vi } from 'vitest'
import type { Backend } from '../../../src/storage/backend.ts'
import { openPostgres } from '../../../src/storage/postgres/index.ts'
import { LimitedQueues } from '../../../src/storage/sql/limited-queues.ts'
import { aKey } from '../../conformance/access/asking.ts'
import { claim, ids, lapse, settleOne, shortMs, until } from '../../conformance/jobs/making.ts'
import { addInOrder, addMany, aJobOf, limitsOf, perKey } from '../../conformance/limits/making.ts'
import { hasService, ownPostgres } from '../../support/services/own.ts'

/** A claim tells the store that the queue has limits. */
async function warmUp(backend: Backend): Promise<void> {
  const [job] = await claim(backend, { limit: 1 })
  await settleOne(backend, job!)
}

/** Locks the rows of all queues against claims. Returns the backends that wait for one. */
async function holdRow(url: string) {
  const holder = new Client(url)
  await holder.connect()
  await holder.query('BEGIN')
  await holder.query('SELECT FROM queue_control FOR UPDATE')
  const ask = async (sql: string, ...values: unknown[]) => (await holder.query(sql, values)).rows
  const waiting = `SELECT pid FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`
  return {
    waiting: async (): Promise<readonly number[]> => (await ask(waiting)).map(({ pid }) => pid),
    cancel: (...pids: readonly number[]) => ask('SELECT pg_cancel_backend(unnest($1::int[]))', pids),
    letGo: () => ask('ROLLBACK'),
    [Symbol.asyncDispose]: () => holder.end(),
  }
}

describe.skipIf(!hasService('postgres'))('claims from queues with limits', () => {
  test('follow the present limits, whatever the limits were before', async () => {
    await using place = await ownPostgres()
    await using backend = await openPostgres(place.url, { namespace: 'default', migrate: true })
    await backend.jobs.setLimits('mail', perKey(2))
    const all = await addMany(backend, 9)
    const take = async (limit = 1) => ids(await claim(backend, { limit }))
    assert.deepEqual([...(await take()), ...(await take())], all.slice(0, 2))
    await backend.jobs.setLimits('mail', limitsOf({ concurrency: 3 }))
    assert.deepEqual(await take(5), [all[2]])
    await backend.jobs.setLimits('mail', perKey(2))
    assert.deepEqual(await take(), [all[3]])
    await backend.jobs.pause('mail')
    assert.deepEqual(await take(), [], 'it is paused')
    await backend.jobs.resume('mail')
    await backend.jobs.setLimits(
      'mail',
      limitsOf({ perKey: { concurrency: 2, rate: { count: 9, perMs: 60_000 } } }),
    )
    assert.deepEqual([...(await take()), ...(await take()), ...(await take())], all.slice(4, 7))
    await backend.jobs.setLimits('mail', null)
    assert.deepEqual(await take(5), all.slice(7))
  })

  test('take newly due jobs and jobs of dead workers first', async () => {
    await using place = await ownPostgres()
    await using backend = await openPostgres(place.url, { namespace: 'default', migrate: true })
    await backend.jobs.setLimits('mail', perKey(2))
    const [, ...all] = await addMany(backend, 9)
    await warmUp(backend)
    const due = aJobOf('due', { priority: 9, due: { delayMs: 5 } })
    await backend.jobs.add([due])
    await new Promise((resolve) => setTimeout(resolve, 50))
    assert.deepEqual(ids(await claim(backend, { limit: 2 })), [due.id, all[0]])
    await claim(backend, { limit: 1 })

    const lost = await claim(backend, { limit: 1, leaseMs: shortMs })
    assert.deepEqual(ids(lost), [all[2]])
    await lapse(backend, ...lost)
    assert.deepEqual(ids(await claim(backend, { limit: 2 })), [all[2], all[3]])
  })

  test('find jobs behind more blocked jobs than one look reads', async () => {
    await using place = await ownPostgres()
    await using backend = await openPostgres(place.url, { namespace: 'default', migrate: true })
    await backend.jobs.setLimits('mail', perKey(1))
    const names = ['full', 'early', 'greedy', ...Array(600).fill('full'), ...Array(600).fill('greedy')]
    const all = await addInOrder(
      backend,
      [...names, 'modest', 'late'].map((name) => aJobOf(name)),
    )
    const take = async (limit: number) => ids(await claim(backend, { limit }))
    assert.deepEqual(await take(1), [all[0]])
    assert.deepEqual(await take(1), [all[1]])
    assert.deepEqual(await take(3), [all[2], ...all.slice(-2)], 'past those of a key that was full')
  })

  test('find jobs behind more jobs of a key with one free slot than one look reads', async () => {
    await using place = await ownPostgres()
    await using backend = await openPostgres(place.url, { namespace: 'default', migrate: true })
    await backend.jobs.setLimits('mail', perKey(1))
    const names = ['first', 'early', ...Array(600).fill('greedy'), 'late']
    const all = await addInOrder(
      backend,
      names.map((name) => aJobOf(name)),
    )
    assert.deepEqual(ids(await claim(backend, { limit: 1 })), [all[0]])
    assert.deepEqual(ids(await claim(backend, { limit: 3 })), [all[1], all[2], all.at(-1)])
  })

  test('skip a job that another transaction holds, and take the next one', async () => {
    await using place = await ownPostgres()
    await using backend = await openPostgres(place.url, { namespace: 'default', migrate: true })
    await backend.jobs.setLimits('mail', perKey(2))
    const [, ...all] = await addMany(backend, 9)
    await warmUp(backend)
    const holder = new Client(place.url)
    await holder.connect()
    try {
      await holder.query('BEGIN')
      await holder.query('SELECT FROM job_queue WHERE id = $1 FOR UPDATE', [all[0]])
      assert.deepEqual(ids(await claim(backend, { limit: 2 })), [all[1], all[2]])
    } finally {
      await holder.end()
    }
  })

  test('sent before the first is answered count its jobs against the limits', async () => {
    await using place = await ownPostgres()
    await using backend = await openPostgres(place.url, { namespace: 'default', migrate: true })
    await backend.jobs.setLimits('mail', { ...perKey(1), concurrency: 5 })
    await addInOrder(
      backend,
      Array.from({ length: 400 }, (_, at) => aJobOf(`key ${at % 4}`)),
    )
    await warmUp(backend)
    for (let turn = 0; turn < 20; turn++) {
      const claims = await Promise.all([1, 2, 3, 4, 5].map((limit) => claim(backend, { limit })))
      const taken = claims.flat()
      // A claim that waits half a second for its turn, as on a frozen engine, returns nothing.
      await until('all were taken', async () => {
        if (taken.length < 4) taken.push(...(await claim(backend, { limit: 5 })))
        return taken.length >= 4
      })
      assert.deepEqual([taken.length, new Set(taken.map(({ meta }) => meta)).size], [4, 4])
      for (const job of taken) await settleOne(backend, job)
    }
  })

  test('take nothing while another transaction holds the row of the queue', async () => {
    await using place = await ownPostgres()
    await using backend = await openPostgres(place.url, { namespace: 'default', migrate: true })
    await backend.jobs.setLimits('mail', perKey(1))
    await addMany(backend, 5)
    await warmUp(backend)
    const holder = new Client(place.url)
    await holder.connect()
    try {
      await holder.query('BEGIN')
      await holder.query('SELECT FROM queue_control FOR UPDATE')
      assert.deepEqual(await claim(backend), [])
      await holder.query('ROLLBACK')
      assert.equal((await claim(backend)).length, 4)
    } finally {
      await holder.end()
    }
  })

  test('wait for the row of the queue on at most one connection', async () => {
    await using place = await ownPostgres()
    await using backend = await openPostgres(place.url, { namespace: 'default', migrate: true })
    await backend.jobs.setLimits('mail', perKey(1))
    await addMany(backend, 20)
    await warmUp(backend)
    await using row = await holdRow(place.url)
    const query = vi.spyOn(Client.prototype, 'query')
    onTestFinished(() => query.mockRestore())
    const claims = Array.from({ length: 12 }, () => claim(backend, { limit: 1 }))
    await until('one waits', async () => (await row.waiting()).length > 0)
    await row.letGo()
    await Promise.all(claims)
    const isOwn = (at: number) =>
      (query.mock.calls[at]![0] as { readonly name?: string }).name === 'sb_limit_rule'
    const used = new Set(query.mock.contexts.filter((_, at) => isOwn(at)))
    assert.ok(used.size <= 1, `${used.size} connections`)
  })

  test('do not break the next claim when they fail on a new connection', async () => {
    await using place = await ownPostgres()
    await using backend = await openPostgres(place.url, { namespace: 'default', migrate: true })
    await backend.jobs.setLimits('mail', perKey(1))
    const [, ...all] = await addMany(backend, 5)
    await warmUp(backend)
    await using row = await holdRow(place.url)
    const failing = claim(backend, { limit: 1 })
    const next = claim(backend, { limit: 1 })
    await until('one waits', async () => (await row.waiting()).length > 0)
    await row.cancel(...(await row.waiting()))
    await assert.rejects(failing, { code: 'store_busy' })
    await row.letGo()
    assert.deepEqual(ids(await next), [all[0]])
    assert.deepEqual(ids(await claim(backend, { limit: 1 })), [all[1]])
  })

  test('with a request key lock the rows of several queues, and do not wait their turn', async () => {
    await using place = await ownPostgres()
    await using backend = await openPostgres(place.url, { namespace: 'default', migrate: true })
    const queues = ['mail', 'post']
    for (const queue of queues) {
      await backend.jobs.setLimits(queue, perKey(1))
      await addMany(backend, 2, { queue })
    }
    const inTurn = vi.spyOn(LimitedQueues.prototype, 'inTurn')
    onTestFinished(() => inTurn.mockRestore())
    const { jobs } = backend.keyed(aKey())
    assert.equal((await claim({ ...backend, jobs }, { queues, limit: 4 })).length, 4)
    assert.equal(inTurn.mock.calls.length, 0)
  })
})
