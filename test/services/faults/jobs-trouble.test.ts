/** Ends of jobs besides success and failure: time-outs, cancellation, lost leases, damaged rows and unknown kinds. */
import assert from 'node:assert/strict'
import type { StoreTransaction, WorkerOptions } from 'signalbox/jobs'
import { describe } from 'vitest'
import { inGrowingLeases } from '../../support/spans.ts'
import { aborted, deferred, jobIn, jobWhen, stages, until } from '../jobs/stage.ts'

const soon = { backoff: { baseMs: 10, factor: 1, jitter: 0 } }

/** The table of waiting jobs; only for a test that must damage a row. */
const waitingTable = {
  memory: '',
  sqlite: 'job_queue',
  postgres: 'job_queue',
  mariadb: 'job_queue',
} as const

/** Blocks the whole process: no other code of it runs, and the processor is free for others. */
function block(ms: number): void {
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, ms)
}

for (const stage of stages()) {
  describe(stage.title, () => {
    stage.story(
      'a job that exceeds its time-out fails at once, and its later calls are ignored',
      async (scene) => {
        const box = await scene.open()
        const late = deferred()
        const reasons: unknown[] = []
        const worker = await scene.work(box, {
          concurrency: 1,
          handlers: {
            slow: async (job, { signal }) => {
              if (job.attempt > 1) return 'second'
              reasons.push(await aborted(signal))
              await late.promise
              return 'first'
            },
          },
        })
        const failed = worker.once('failed')
        const { id } = await box.jobs.add('slow', {}, { timeoutMs: 100, ...soon })
        const { error, state } = await failed
        assert.deepEqual([(error as { code: string }).code, state], ['timeout', 'scheduled'])
        // The slot is free although the handler still hangs in it.
        const job = await jobIn(box, id, 'completed')
        late.resolve()
        assert.deepEqual([job.result, job.attempt], ['second', 2])
        assert.equal((reasons[0] as { code: string }).code, 'timeout')
        await until('the late one has left', () => worker.load.running === 0)
        assert.equal((await box.jobs.find(id))?.result, 'second')
      },
    )

    stage.story('a late ack, nack or transaction after the time-out is refused', async (scene) => {
      const box = await scene.open()
      const codes: unknown[] = []
      await scene.work(box, {
        handlers: {
          slow: async (job, { signal }) => {
            await aborted(signal)
            for (const act of [() => job.ack(), () => job.nack(), () => job.transaction(() => 1)])
              await act().catch((error: { code: unknown }) => codes.push(error.code))
          },
        },
      })
      const { id } = await box.jobs.add('slow', {}, { timeoutMs: 50, maxAttempts: 1 })
      assert.equal((await jobIn(box, id, 'dead')).error?.code, 'timeout')
      await until('all three were refused', () => codes.length === 3)
      assert.deepEqual(codes, ['lease_lost', 'lease_lost', 'lease_lost'])
    })

    stage.story(
      'a cancellation request reaches a running handler within a second, also from another box',
      async (scene) => {
        const box = await scene.open()
        const other = await scene.openAnother(box)
        await scene.work(box, {
          // The worker would learn it from a renewal as well, but that is far away.
          leaseMs: '90s',
          handlers: {
            long: async (_, { signal }) => {
              await aborted(signal)
              throw signal.reason
            },
          },
        })
        const { id } = await box.jobs.add('long', {}, { maxAttempts: 5 })
        await jobIn(box, id, 'running')
        const askedAt = performance.now()
        assert.deepEqual(await other.jobs.cancel(id), { state: 'running', cancelRequested: true })
        const job = await jobIn(box, id, 'cancelled', 12_000)
        const tookMs = performance.now() - askedAt
        // Ten times the promised time.
        assert.ok(tookMs < 10_000, `it took ${tookMs} ms`)
        assert.deepEqual([job.attempt, job.cancelIgnored], [1, false])
      },
    )

    stage.story(
      'a job that is cancelled in its last attempt ends cancelled, with the error of its handler',
      async (scene) => {
        const box = await scene.open()
        await scene.work(box, {
          handlers: {
            long: async (_, { signal }) => {
              await aborted(signal)
              throw new Error('stopped half-way')
            },
          },
        })
        const { id } = await box.jobs.add('long', {}, { maxAttempts: 1 })
        await jobIn(box, id, 'running')
        await box.jobs.cancel(id)
        const job = await jobIn(box, id, 'cancelled')
        assert.deepEqual([job.attempt, job.error?.message], [1, 'stopped half-way'])
      },
    )

    stage.story(
      'a handler that completes despite a cancellation request is completed, and the job shows the request',
      async (scene) => {
        const box = await scene.open()
        await scene.work(box, {
          handlers: {
            stubborn: async (_, { signal }) => {
              await aborted(signal)
              return 'done anyway'
            },
          },
        })
        const { id } = await box.jobs.add('stubborn')
        await jobIn(box, id, 'running')
        await box.jobs.cancel(id)
        const job = await jobIn(box, id, 'completed')
        assert.deepEqual([job.result, job.cancelIgnored], ['done anyway', true])
      },
    )

    stage.callerStory(
      'a time-out, a cancellation request or a stop rolls back the open transaction',
      async (scene) => {
        const box = await scene.open()
        await scene.connect()
        const reasons: unknown[] = []
        const inside: string[] = []
        const handlers: WorkerOptions['handlers'] = {
          charge: (job) =>
            job
              .transaction(async (tx) => {
                await tx.sql`INSERT INTO paid (scene, job, note) VALUES (${scene.namespace}, ${job.id}, ${'never'})`
                inside.push(job.id)
                await new Promise(() => undefined)
              })
              .catch((error) => {
                reasons.push(error.code ?? error.name)
                throw error
              }),
        }
        const worker = await scene.work(box, { handlers })
        const timed = await box.jobs.add('charge', {}, { timeoutMs: 300, maxAttempts: 1 })
        assert.equal((await jobIn(box, timed.id, 'dead')).error?.code, 'timeout')

        // SQLite has one writer, so the cancellation request is written only after the transaction has ended.
        const isHeard = stage.name !== 'sqlite'
        if (isHeard) {
          const cancelled = await box.jobs.add('charge')
          await until('it is inside', () => inside.includes(cancelled.id))
          await box.jobs.cancel(cancelled.id)
          await jobIn(box, cancelled.id, 'cancelled')
        }

        const stopped = await box.jobs.add('charge')
        await until('it is inside', () => inside.includes(stopped.id))
        await worker.stop({ graceMs: 50 })
        const job = await box.jobs.find(stopped.id)
        assert.deepEqual([job?.state, job?.attempt], ['ready', 0])

        await until('each handler was aborted', () => reasons.length === (isHeard ? 3 : 2))
        assert.equal(reasons[0], 'timeout')
        assert.deepEqual(await scene.paid(), [])
      },
    )

    stage.story('a waiting job is cancelled at once, and can be retried', async (scene) => {
      const box = await scene.open()
      const { id } = await box.jobs.add('mail', {}, { delayMs: '1h' })
      assert.equal((await box.jobs.cancel(id)).state, 'cancelled')
      await scene.work(box, { handlers: { mail: () => 'sent' } })
      await box.jobs.retry(id)
      assert.equal((await jobIn(box, id, 'completed')).result, 'sent')
      await assert.rejects(box.jobs.cancel('unknown'), { code: 'not_found' })
      await assert.rejects(box.jobs.retry('unknown'), { code: 'not_found' })
    })

    stage.story(
      'a worker that froze learns that its lease is lost, and the job runs again',
      async (scene) => {
        const box = await scene.open()
        const pays = stage.hasTables && !stage.isRemote
        if (pays) await scene.connect()
        const reasons: unknown[] = []
        const codes: unknown[] = []
        let runs = 0
        const worker = await scene.work(box, {
          leaseMs: 250,
          handlers: {
            charge: async (job, { signal }) => {
              if (++runs === 1) {
                block(600)
                reasons.push(await aborted(signal))
              }
              const pay = async (tx: StoreTransaction) => {
                if (pays)
                  await tx.sql`INSERT INTO paid (scene, job, note) VALUES (${scene.namespace}, ${job.id}, ${`attempt ${job.attempt}`})`
                return job.attempt
              }
              const end = stage.isRemote ? job.ack({ result: job.attempt }) : job.transaction(pay)
              await end.catch((error: { code: unknown }) => codes.push(error.code))
            },
          },
        })
        const { id } = await box.jobs.add('charge', {}, { maxAttempts: 100 })
        const { attempt, result } = await jobIn(box, id, 'completed')
        // The second attempt; a later one if the machine froze as well.
        assert.ok(attempt >= 2 && result === attempt, `attempt ${attempt}, ${result}`)
        // The last attempt may end before the answers to the earlier ones arrive.
        await until('the others were answered', () => codes.length === runs - 1 && worker.counts.lost > 0)
        assert.equal((reasons[0] as { code: string }).code, 'lease_lost')
        assert.deepEqual(codes, Array(runs - 1).fill('lease_lost'))
        // On a slow machine the worker's own clock may end the lease of the last attempt while its COMMIT still succeeds.
        const { lost } = worker.counts
        assert.ok(lost >= attempt - 1 && lost <= runs, `${lost} of ${runs} leases lost, attempt ${attempt}`)
        if (pays) assert.deepEqual(await scene.paid(), [`attempt ${attempt}`])
      },
    )

    stage.story('the store refuses an ack that comes right after the process froze', async (scene) => {
      const box = await scene.open()
      const codes: unknown[] = []
      let runs = 0
      await scene.work(box, {
        leaseMs: 250,
        handlers: {
          charge: async (job) => {
            if (++runs === 1) block(600)
            await job.ack({ result: job.attempt }).catch((error: { code: unknown }) => codes.push(error.code))
          },
        },
      })
      const { id } = await box.jobs.add('charge', {}, { maxAttempts: 100 })
      const { attempt, result } = await jobIn(box, id, 'completed')
      assert.ok(attempt >= 2 && result === attempt, `attempt ${attempt}, ${result}`)
      // The last attempt may end before the answers to the earlier ones arrive.
      await until('the others were answered', () => codes.length === runs - 1)
      assert.deepEqual(codes, Array(runs - 1).fill('lease_lost'))
    })

    stage.story(
      'the worker renews the lease of a long handler',
      (scene) =>
        inGrowingLeases(600, async (leaseMs, stills) => {
          const box = await scene.open()
          const other = await scene.openAnother(box)
          const done = deferred()
          // The workers of another story may still exist.
          const kind = `long ${leaseMs}`
          const handlers = { [kind]: () => done.promise }
          const workers = [
            await scene.work(box, { leaseMs, handlers }),
            await scene.work(other, { leaseMs, handlers }),
          ]
          const { id } = await box.jobs.add(kind)
          await jobIn(box, id, 'running')
          const end = performance.now() + 2.5 * leaseMs
          while (performance.now() < end) {
            const job = await stills.during(other.jobs.find(id))
            assert.deepEqual([job?.state, job?.attempt], ['running', 1])
            await new Promise((resolve) => setTimeout(resolve, 20))
          }
          done.resolve()
          assert.equal((await jobIn(box, id, 'completed')).attempt, 1)
          assert.deepEqual(
            workers.map(({ counts }) => counts.lost),
            [0, 0],
          )
        }),
      60_000,
    )

    stage.story(
      'QL1: the jobs of a dead worker are claimed soon after their lease expires',
      async (scene) => {
        const box = await scene.open()
        const other = await scene.openAnother(box)
        const { id } = await box.jobs.add('mail')
        const leaseMs = 300
        // A client claims it and disappears.
        const claimedAt = performance.now()
        const [job] = await box.jobs.claim({ leaseMs, workerId: 'dead' })
        assert.equal(job?.id, id)
        await scene.work(other, { pollMs: 1_000, handlers: { mail: () => 'sent' } })
        const { attempt, workerId } = await jobIn(box, id, 'completed', 12_000)
        const tookMs = performance.now() - claimedAt
        // At the latest one poll later; here ten times the promised second is allowed.
        assert.ok(tookMs >= leaseMs - 5 && tookMs < leaseMs + 1_000 + 10_000, `${tookMs} ms`)
        assert.deepEqual([attempt, workerId === 'dead'], [2, false])
        await assert.rejects(box.jobs.ack(job!), { code: 'lease_lost' })
      },
    )

    stage.story('a job that kills its worker every time is dead after exactly maxAttempts', async (scene) => {
      const box = await scene.open()
      const { id } = await box.jobs.add('killer', {}, { maxAttempts: 3 })
      let grants = 0
      await until('it is handed out no more', async () => {
        grants += (await box.jobs.claim({ leaseMs: 100 })).length
        return (await box.jobs.find(id))?.state === 'dead'
      })
      const job = await box.jobs.find(id)
      assert.deepEqual([grants, job?.attempt, job?.error?.code], [3, 3, 'lease_expired'])
    })

    stage.story(
      'QL6: two thousand jobs of an unknown kind delay no others, and wait for workers that know it',
      async (scene) => {
        const box = await scene.open()
        // A server accepts a thousand at once.
        for (const _ of [1, 2])
          await box.jobs.addMany(Array.from({ length: 1_000 }, () => ({ kind: 'unknown', priority: 5 })))
        await box.jobs.addMany([{ kind: 'constructor' }, { kind: '__proto__' }, { kind: 'toString' }])
        const { id } = await box.jobs.add('known')
        const startedAt = performance.now()
        const worker = await scene.work(box, { handlers: { known: () => 'run' } })
        await jobIn(box, id, 'completed')
        const tookMs = performance.now() - startedAt
        assert.ok(tookMs < 7_500, `${tookMs} ms`)
        const [line] = await box.jobs.stats()
        assert.deepEqual([line?.ready, line?.running, line?.dead], [2_003, 0, 0])
        assert.equal(worker.counts.claimed, 1)
        for (const kind of ['constructor', '__proto__', 'toString'])
          assert.equal((await box.jobs.list({ kind })).items[0]?.attempt, 0)
        await scene.work(box, {
          handlers: { ['__proto__' as string]: () => 'own', constructor: () => 'own' },
        })
        // `{ __proto__: … }` would set the prototype; a computed name makes an own key, which is a handler like any other.
        const [job] = (await box.jobs.list({ kind: 'constructor' })).items
        assert.equal((await jobIn(box, job!.id, 'completed')).result, 'own')
      },
    )

    stage.tableStory(
      'a job with an unreadable row ends dead with a reason, and its neighbours run',
      async (scene) => {
        const box = await scene.open()
        const session = await scene.connect()
        await box.jobs.pause('default')
        const added = await box.jobs.addMany(
          Array.from({ length: 5 }, (_, n) => ({ kind: 'mail', payload: n })),
        )
        const broken = added[2]!.id
        const table = waitingTable[stage.name]
        await session.exec(`UPDATE ${table} SET payload = '{"to": "ad' WHERE id = ?`, broken)
        assert.equal((await box.jobs.find(broken))?.error?.code, 'undecodable')
        await box.jobs.resume('default')
        await scene.work(box, { handlers: { mail: (job) => job.payload } })
        for (const { id } of added) {
          const job = await jobWhen(box, id, ({ finishedAt }) => finishedAt !== null)
          if (id === broken)
            assert.deepEqual([job.state, job.error?.code, job.attempt], ['dead', 'undecodable', 1])
          else assert.equal(job.state, 'completed')
        }
      },
    )

    stage.tableStory(
      'a job with an unreadable back-off takes the default one, and other verdicts are unaffected',
      async (scene) => {
        const box = await scene.open()
        const session = await scene.connect()
        await box.jobs.pause('default')
        const added = await box.jobs.addMany(
          Array.from({ length: 3 }, (_, n) => ({ kind: 'mail', payload: n, ...soon, maxAttempts: 2 })),
        )
        const broken = added[1]!.id
        await session.exec(
          `UPDATE ${waitingTable[stage.name]} SET backoff = '{"baseMs":"x","jitter":7}' WHERE id = ?`,
          broken,
        )
        const resumedAt = Date.now()
        await box.jobs.resume('default')
        await scene.work(box, {
          handlers: {
            mail: () => {
              throw new Error('no')
            },
          },
        })
        for (const { id } of added) if (id !== broken) await jobIn(box, id, 'dead')
        const job = await jobWhen(box, broken, ({ error }) => error !== null)
        assert.equal(job.state, 'scheduled')
        assert.ok(job.runAt > resumedAt + 500)
      },
    )
  })
}
