/**
 * The stories that every library's own transaction must satisfy: a job and a row of the user's are written together or
 * not at all, whichever library began the transaction. Each library's file connects and begins one.
 */

import assert from 'node:assert/strict'
import { type Box, isSignalboxError, open } from 'signalbox'
import type { CallerTransaction } from 'signalbox/jobs'
import { afterAll, beforeAll, describe, test } from 'vitest'
import { type Caller, mariadbCaller, postgresCaller, sqliteCaller } from '../../conformance/callers.ts'
import { ownSqlite } from '../../conformance/candidates.ts'
import { hasService, type OwnDatabase, ownMariadb, ownPostgres } from '../../support/services/own.ts'
import { jobIn } from '../jobs/stage.ts'

/** A program's way to its database, through its library. */
export interface Library extends AsyncDisposable {
  /** Runs `work` in a transaction of the library's: it commits, or rolls back when `work` throws. */
  transaction(work: (tx: CallerTransaction, pay: Pay) => Promise<unknown>): Promise<unknown>
  /** A transaction, and `nest` for one inside it, which is rolled back alone when it throws. */
  nested?(work: (tx: CallerTransaction, nest: Nest) => Promise<unknown>): Promise<unknown>
  /** Writes a row of the user's outside any transaction. */
  readonly alone: Pay
  /** An object that a program might pass by mistake: the library outside any transaction. */
  readonly outside: readonly CallerTransaction[]
}

/** Runs `work` in a transaction inside another, by the library's own means. */
export type Nest = (work: (tx: CallerTransaction) => Promise<unknown>) => Promise<unknown>

/** Writes a row of the user's through the library. */
export type Pay = (note: string) => Promise<unknown>

interface EngineAccess {
  own(): Promise<OwnDatabase>
  connect(url: string): Promise<Caller>
  isThere(): boolean
}

export type Engine = 'postgres' | 'mariadb' | 'sqlite'

const engines: Readonly<Record<Engine, EngineAccess>> = {
  postgres: { own: ownPostgres, connect: postgresCaller, isThere: () => hasService('postgres') },
  mariadb: { own: ownMariadb, connect: mariadbCaller, isThere: () => hasService('mariadb') },
  sqlite: { own: ownSqlite, connect: sqliteCaller, isThere: () => true },
}

const changedMind = new Error('changed my mind')

export function libraryStories(
  title: string,
  engine: Engine,
  connect: (url: string) => Promise<Library>,
): void {
  const { own, connect: connectDriver, isThere } = engines[engine]
  describe.skipIf(!isThere())(`${title} on ${engine}`, () => {
    let home: OwnDatabase
    let away: OwnDatabase
    let box: Box
    let library: Library
    let caller: Caller

    beforeAll(async () => {
      ;[home, away] = await Promise.all([own(), own()])
      box = await open(home.url, { migrate: true })
      for (const { url } of [home, away]) {
        await using driver = await connectDriver(url)
        await driver.exec('CREATE TABLE paid (note varchar(40))')
      }
      caller = await connectDriver(home.url)
      library = await connect(home.url)
    }, 30_000)

    afterAll(async () => {
      await library?.[Symbol.asyncDispose]()
      await caller?.[Symbol.asyncDispose]()
      await box?.close()
      await home?.[Symbol.asyncDispose]()
      await away?.[Symbol.asyncDispose]()
    })

    const paid = async (note: string): Promise<number> =>
      (await caller.exec('SELECT note FROM paid WHERE note = ?', note)).length

    test('a commit keeps the job and the row, and the unique key is known', async () => {
      const [first, second] = (await library.transaction(async (tx, pay) => {
        await pay('committed')
        const options = { tx, uniqueKey: 'order "1"', tags: ['a', 'b'], notify: true }
        return [
          await box.jobs.add('mail', { to: 'ä"\\' }, options),
          await box.jobs.add('mail', 'repeated', options),
        ]
      })) as readonly { id: string; duplicate: boolean }[]
      assert.deepEqual(second, { id: first!.id, duplicate: true })
      const job = await box.jobs.find(first!.id)
      assert.deepEqual([job?.state, job?.payload, job?.tags], ['ready', { to: 'ä"\\' }, ['a', 'b']])
      assert.equal(await paid('committed'), 1)
    })

    test('jobs with dependencies, a lock or a limit are added in a transaction like any other', async () => {
      const queue = 'gated'
      const add = (tx: CallerTransaction) =>
        box.jobs.addMany(
          [
            { kind: 'second', queue, after: { jobs: ['first'], onFailure: 'run' }, limitKey: 'ä"1' },
            { kind: 'first', queue, ref: 'first' },
            { kind: 'locked', queue, lock: { operation: 'deploy', resource: 'w"eb' } },
          ],
          { tx },
        )
      const undone = library.transaction(async (tx) => {
        await add(tx)
        throw changedMind
      })
      await assert.rejects(undone, (error) => error === changedMind)
      assert.deepEqual((await box.jobs.list({ queue })).items, [])
      const [second, first] = (await library.transaction(add)) as readonly { id: string }[]
      const { items } = await box.jobs.list({ queue })
      assert.deepEqual(items.map(({ kind, state }) => `${kind} ${state}`).toSorted(), [
        'first ready',
        'locked waiting',
        'second waiting',
      ])
      const { dependencies } = (await box.jobs.find(second!.id))!
      assert.deepEqual(dependencies, [{ id: first!.id, state: 'ready', isMet: false }])
    })

    test('a rollback keeps neither the job nor the row', async () => {
      let ids: readonly string[] = []
      const work = library.transaction(async (tx, pay) => {
        await pay('rolled back')
        const added = await box.jobs.addMany([{ kind: 'mail' }, { kind: 'mail', payload: 2 }], { tx })
        ids = added.map(({ id }) => id)
        throw changedMind
      })
      await assert.rejects(work, (error) => error === changedMind)
      assert.equal(ids.length, 2)
      for (const id of ids) assert.equal(await box.jobs.find(id), undefined)
      assert.equal(await paid('rolled back'), 0)
    })

    test('after a rolled back ack the job runs again, and its row is there once', async () => {
      const worker = box.jobs.worker({
        queues: ['charges'],
        pollMs: 20,
        handlers: {
          charge: async (job) => {
            await library.transaction(async (tx, pay) => {
              await pay('charged')
              await job.ack({ tx, result: { attempt: job.attempt } })
              if (job.attempt === 1) throw changedMind
            })
          },
        },
      })
      await worker.start()
      try {
        const backoff = { baseMs: 10, jitter: 0 }
        const { id } = await box.jobs.add('charge', {}, { queue: 'charges', backoff })
        const job = await jobIn(box, id, 'completed')
        assert.deepEqual([job.attempt, job.result], [2, { attempt: 2 }])
        assert.equal(await paid('charged'), 1)
      } finally {
        await worker.stop({ graceMs: 1_000 })
      }
    })

    test('a job that is added in a nested transaction is rolled back with that one alone', async (context) => {
      if (!library.nested) return context.skip('it has none, or is joined without it')
      const ids: string[] = []
      const add = async (tx: CallerTransaction) => ids.push((await box.jobs.add('nested', {}, { tx })).id)
      await library.nested(async (tx, nest) => {
        await add(tx)
        await nest(add)
        const inner = nest(async (tx) => {
          await add(tx)
          throw changedMind
        })
        await assert.rejects(inner, (error) => error === changedMind)
      })
      const found = await Promise.all(ids.map(async (id) => (await box.jobs.find(id))?.state))
      assert.deepEqual(found, ['ready', 'ready', undefined])
    })

    test('a guard claimed in a transaction is free again after the rollback', async () => {
      const claim = (tx?: CallerTransaction) => box.once.claim('order 7', tx === undefined ? {} : { tx })
      const work = library.transaction(async (tx) => {
        assert.equal((await claim(tx)).status, 'run')
        throw changedMind
      })
      await assert.rejects(work, (error) => error === changedMind)
      assert.equal((await claim()).status, 'run')
    })

    /** More often than the library has connections, so that a connection left in a transaction would be used. */
    const goOnWorking = async (note: string) => {
      for (let nr = 1; nr <= 3; nr++) {
        await library.alone(note)
        await library.transaction((_, pay) => pay(note))
        assert.equal(await paid(note), 2 * nr)
      }
    }

    for (const verb of ['ack', 'nack'] as const) {
      test(`a refused ${verb} prevents the commit, and the library continues to work`, async () => {
        const [job] = await claimOne()
        const note = `refused ${verb}`
        // The lease expired, and another worker ran the job.
        await library.transaction(async (tx, pay) => {
          await pay(note)
          await box.jobs.ack(job!, { tx })
        })
        let seen: unknown
        const swallowing = library.transaction(async (tx, pay) => {
          await pay(note)
          await box.jobs[verb](job!, { tx }).catch((error: unknown) => {
            seen = error
          })
          await pay(note).catch(() => undefined)
        })
        // Some libraries and engines say so at COMMIT, others only keep nothing.
        await swallowing.catch(() => undefined)
        assert.ok(isSignalboxError(seen, 'lease_lost'), String(seen))
        assert.match(seen.message, /transaction handed in as `tx` was ended/)
        assert.equal(await paid(note), 1)
        const rethrowing = library.transaction(async (tx, pay) => {
          await pay(note)
          await box.jobs[verb](job!, { tx })
        })
        await assert.rejects(rethrowing, { code: 'lease_lost' })
        assert.equal(await paid(note), 1)
        await goOnWorking(`after a refused ${verb}`)
      })
    }

    test('an ack that is refused in a nested transaction ends the outer one as well', async (context) => {
      if (!library.nested) return context.skip('it has none, or is joined without it')
      const [job] = await claimOne()
      await box.jobs.ack(job!)
      const whole = library.nested(async (tx, nest) => {
        await box.jobs.add('before the savepoint', {}, { tx })
        const inner = nest((tx) => box.jobs.ack(job!, { tx }))
        await inner.catch(() => undefined)
      })
      await whole.catch(() => undefined)
      assert.deepEqual((await box.jobs.list({ kind: 'before the savepoint' })).items, [])
      await goOnWorking('after a refused nested ack')
    })

    test('a call outside a transaction, or in an ended one, is refused and writes nothing', async () => {
      let ended: CallerTransaction | undefined
      await library.transaction(async (tx) => {
        ended = tx
      })
      const [job] = await claimOne()
      for (const tx of [...library.outside, ended]) {
        await assert.rejects(box.jobs.add('stray', {}, { tx }), { code: 'transaction_required' })
        await assert.rejects(box.jobs.ack(job!, { tx }), { code: 'transaction_required' })
      }
      assert.equal((await box.jobs.list({ kind: 'stray' })).items.length, 0)
      assert.equal((await box.jobs.find(job!.id))?.state, 'running')
    })

    const claimOne = async () => {
      await box.jobs.add('claimed', {}, { queue: 'by hand' })
      return box.jobs.claim({ queues: ['by hand'], limit: 1, leaseMs: 60_000 })
    }

    // One transaction of MariaDB may write to every database of its server, so another database also works.
    const outcome = engine === 'mariadb' ? 'takes part as well' : 'is refused'
    test(`a transaction in another database ${outcome}`, async () => {
      await using elsewhere = await connect(away.url)
      const [job] = await claimOne()
      const add = () => elsewhere.transaction((tx) => box.jobs.add('elsewhere', {}, { tx }))
      const ack = () => elsewhere.transaction((tx) => box.jobs.ack(job!, { tx }))
      if (engine === 'mariadb') {
        const { id } = (await add()) as { id: string }
        await ack()
        assert.equal((await box.jobs.find(id))?.state, 'ready')
        assert.equal((await box.jobs.find(job!.id))?.state, 'completed')
        return
      }
      await assert.rejects(add(), { code: 'wrong_database' })
      await assert.rejects(ack(), { code: 'wrong_database' })
      assert.equal((await box.jobs.list({ kind: 'elsewhere' })).items.length, 0)
      assert.equal((await box.jobs.find(job!.id))?.state, 'running')
    })
  })
}
