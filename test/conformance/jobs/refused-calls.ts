import assert from 'node:assert/strict'
import { test } from 'vitest'
import { isSignalboxError } from '../../../src/core/errors.ts'
import type { JobStore } from '../../../src/jobs/index.ts'
import { createOnce } from '../../../src/once/index.ts'
import type { Candidate, SqlSide } from '../candidates.ts'
import { addOne, claimOne, find, lapsedJob, longMs, runningJob } from './making.ts'
import { failing, held, openStage, runOne } from './refused-calls-stage.ts'

/** A call that fails in a caller's transaction ends that transaction: the caller cannot commit past the error. */
export function refusedCallsContract({ name, open, sql: side }: Candidate): void {
  const sql: SqlSide = side!

  for (const verb of ['ack', 'nack'] as const) {
    test(`a caller that swallows a refused ${verb} and commits keeps none of its rows`, async () => {
      await using backend = await open()
      await using stage = await openStage(backend, sql)
      // The first worker froze past its lease, and another worker runs the job.
      const first = held(await lapsedJob(backend))
      const second = held(await claimOne(backend, { workerId: 'w2' }))
      await stage.inTransaction(async ({ caller, jobs, note }) => {
        await note('by the second')
        await jobs.ack(second, { tx: caller.tx })
      })

      const refused = await stage.swallowing(({ caller, jobs }) => jobs[verb](first, { tx: caller.tx }))
      assert.equal(refused.code, 'lease_lost')
      assert.match(refused.message, /Job ".+" is no longer held.+transaction handed in as `tx` was ended/s)
      assert.deepEqual(refused.details, { jobId: first.id, transactionEnded: true })
      assert.deepEqual(await stage.ledger.logs(), ['by the second'])
      assert.equal((await find(backend, first.id)).state, 'completed')
      await stage.worksAgain()
    })
  }

  test('a refused ack inside a savepoint ends the whole transaction', async () => {
    await using backend = await open()
    await using stage = await openStage(backend, sql)
    const job = held(await lapsedJob(backend))
    const { caller, jobs, note } = stage
    await caller.begin()
    await note('before the savepoint')
    await caller.exec('SAVEPOINT part')
    await assert.rejects(jobs.ack(job, { tx: caller.tx }), { code: 'lease_lost' })
    await caller.exec('ROLLBACK TO SAVEPOINT part').catch(() => undefined)
    await note('after the savepoint').catch(() => undefined)
    await caller.commit().catch(() => undefined)
    await caller.rollback().catch(() => undefined)
    assert.deepEqual(await stage.ledger.logs(), [])
    await stage.worksAgain()
  })

  test('a malformed token or a closed store also ends the transaction', async () => {
    await using backend = await open({})
    await using stage = await openStage(backend, sql)
    const job = held(await runningJob(backend))
    const forged = { ...job, token: 'no token' }
    const first = await stage.swallowing(({ caller, jobs }) => jobs.ack(forged, { tx: caller.tx }))
    assert.equal(first.code, 'lease_lost')
    await stage.worksAgain()
    await backend.close()
    const second = await stage.swallowing(({ caller, jobs }) => jobs.nack(job, { tx: caller.tx }))
    assert.equal(second.code, 'closed')
    assert.deepEqual(await stage.ledger.logs(), ['works again'])
  })

  test('an add that fails half-way writes nothing, even when the caller commits', async () => {
    await using backend = await open()
    const added: string[] = []
    const halfway: JobStore = failing(backend.jobs, async (jobs, tx) => {
      added.push(...(await backend.jobs.add(jobs.slice(0, 1), tx)).map(({ id }) => id))
      throw new Error('the disk is full')
    })
    await using stage = await openStage(backend, sql, halfway)
    const list = [{ kind: 'welcome' }, { kind: 'welcome' }]
    const { caller, jobs, note } = stage
    await caller.begin()
    await note('lost with its jobs')
    await assert.rejects(jobs.addMany(list, { tx: caller.tx }), /the disk is full/)
    await note('written after it').catch(() => undefined)
    await caller.commit().catch(() => undefined)
    await caller.rollback().catch(() => undefined)
    assert.deepEqual(await stage.ledger.logs(), [])
    assert.equal(added.length, 1)
    assert.equal(await backend.jobs.find(added[0]!), undefined)
    await stage.worksAgain()
  })

  // Postgres never does: a failed transaction stays until it is ended.
  test.skipIf(name === 'postgres')(
    'after an error for which the database rolled back, later statements do not commit alone',
    async () => {
      await using backend = await open()
      await using stage = await openStage(
        backend,
        sql,
        failing(backend.jobs, async () => {
          await stage.caller.rollback()
          throw new Error('a deadlock')
        }),
      )
      const { caller, jobs, note } = stage
      await caller.begin()
      await assert.rejects(jobs.add('welcome', {}, { tx: caller.tx }), /a deadlock/)
      await note('written after it').catch(() => undefined)
      await caller.commit().catch(() => undefined)
      await caller.rollback().catch(() => undefined)
      assert.deepEqual(await stage.ledger.logs(), [])
      await stage.worksAgain()
    },
  )

  test('a refused call outside a transaction starts none', async () => {
    await using backend = await open()
    await using stage = await openStage(backend, sql)
    const { caller, jobs, note } = stage
    const seen = await runOne(jobs, async (job) => {
      await job.ack()
      return job.ack({ tx: caller.tx }).catch((error: unknown) => error)
    })
    assert.ok(isSignalboxError(seen, 'lease_lost'))
    await note('by itself')
    assert.deepEqual(await stage.ledger.logs(), ['by itself'])
  })

  test('a claim of several keys that fails at one of them leaves none claimed', async () => {
    await using backend = await open()
    await using stage = await openStage(backend, sql)
    const once = createOnce({ store: backend.guards })
    await once.claim('b', { fingerprint: 'another' })
    const refused = await stage.swallowing(({ caller }) => once.claimMany(['a', 'b'], { tx: caller.tx }))
    assert.equal(refused.code, 'fingerprint_mismatch')
    assert.deepEqual(await stage.ledger.logs(), [])
    assert.equal((await once.claim('a')).status, 'run')
    await stage.worksAgain()
    await once[Symbol.asyncDispose]()
  })

  test('ending, failing or renewing a lost claim is refused and ends the transaction', async () => {
    await using backend = await open()
    await using stage = await openStage(backend, sql)
    const once = createOnce({ store: backend.guards })
    const claim = await once.claim('order', {})
    assert.ok(claim.status === 'run')
    const { token } = claim
    await once.done('order', token, 'first')
    const { tx } = stage.caller
    for (const call of [
      () => once.done('order', token, 'second', { tx }),
      () => once.fail('order', token, { tx }),
      () => once.renew('order', token, longMs, { tx }),
    ]) {
      const refused = await stage.swallowing(call)
      assert.equal(refused.code, 'lease_lost')
      assert.match(refused.message, /transaction handed in as `tx` was ended/)
    }
    assert.deepEqual(await stage.ledger.logs(), [])
    assert.deepEqual(await once.claim('order'), { status: 'done', result: 'first' })
    await stage.worksAgain()
    await once[Symbol.asyncDispose]()
  })

  test('invalid arguments and answers that are not errors leave the transaction open', async () => {
    await using backend = await open()
    await using stage = await openStage(backend, sql)
    const once = createOnce({ store: backend.guards })
    const job = held(await runningJob(backend))
    await addOne(backend, { uniqueKey: 'taken' })
    await once.claim('running')
    await stage.inTransaction(async ({ caller: { tx }, jobs, note }) => {
      await note('kept')
      const wrong = { code: 'invalid_argument' }
      await assert.rejects(jobs.add('', {}, { tx }), wrong)
      await assert.rejects(jobs.addMany([{ kind: 'welcome', maxAttempts: 0 }], { tx }), wrong)
      await assert.rejects(jobs.ack(job, { tx, result: 1n as never }), wrong)
      await assert.rejects(jobs.ack({ id: job.id } as never, { tx }), wrong)
      await assert.rejects(once.claim('', { tx }), wrong)
      const again = await jobs.add('welcome', {}, { tx, queue: 'mail', uniqueKey: 'taken' })
      assert.equal(again.duplicate, true)
      assert.equal((await once.claim('running', { tx })).status, 'running')
      await jobs.ack(job, { tx })
    })
    assert.deepEqual(await stage.ledger.logs(), ['kept'])
    assert.equal((await find(backend, job.id)).state, 'completed')
    await once[Symbol.asyncDispose]()
  })

  test('a handler whose job was ended elsewhere cannot commit rows after a refused ack', async () => {
    await using backend = await open()
    await using stage = await openStage(backend, sql)
    const { caller, jobs, note } = stage
    const seen = await runOne(jobs, async (job) => {
      await job.ack()
      await caller.begin()
      await note('behind a second ack')
      const error = await job.ack({ tx: caller.tx }).catch((error: unknown) => error)
      await caller.commit().catch(() => undefined)
      await caller.rollback().catch(() => undefined)
      return error
    })
    assert.ok(isSignalboxError(seen, 'lease_lost'))
    assert.deepEqual(await stage.ledger.logs(), [])
    await stage.worksAgain()
  })

  for (const group of [1, 5])
    test(`job.transaction${group > 1 ? ' of a group' : ''} rolls back when its work swallowed an error`, async () => {
      await using backend = await open()
      await using stage = await openStage(backend, sql)
      const { jobs, ledger } = stage
      const lost = held(await lapsedJob(backend, { queue: 'other' }))
      const insert = `INSERT INTO ${ledger.table} (note) VALUES ('swallowed inside')`
      const seen = await runOne(
        jobs,
        (job) =>
          job
            .transaction(async (tx) => {
              await tx.query(insert)
              await jobs.ack(lost, { tx }).catch(() => undefined)
            })
            .catch((error: unknown) => error),
        group,
      )
      assert.ok(isSignalboxError(seen, 'lease_lost'), String(seen))
      assert.match(seen.message, new RegExp(lost.id))
      assert.deepEqual(await ledger.logs(), [])
    })
}
