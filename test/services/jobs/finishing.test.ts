/** The three ways to finish a job; rows and job are always committed together. */
import assert from 'node:assert/strict'
import type { Box } from 'signalbox'
import type { HandlerJob, StoreTransaction } from 'signalbox/jobs'
import { describe } from 'vitest'
import { inGrowingLeases, type Stills } from '../../support/spans.ts'
import { deferred, jobIn, jobWhen, type Scene, stages, until } from './stage.ts'

const soon = { backoff: { baseMs: 10, factor: 1, jitter: 0 } }

const insert = 'INSERT INTO paid (scene, job, note) VALUES (?, ?, ?)'

/** Writes a row with what `job.transaction` gives. */
function payer({ namespace }: Scene) {
  return (tx: StoreTransaction, job: HandlerJob, note: string) =>
    tx.sql`INSERT INTO paid (scene, job, note) VALUES (${namespace}, ${job.id}, ${note})`
}

for (const stage of stages()) {
  describe(stage.title, () => {
    stage.story('a handler that returns completes its job with the returned value', async (scene) => {
      const box = await scene.open()
      const seen: HandlerJob[] = []
      const worker = await scene.work(box, {
        workerId: 'ada',
        handlers: {
          greet: (job) => {
            seen.push(job)
            return { hello: job.payload.name }
          },
        },
      })
      const { id } = await box.jobs.add('greet', { name: 'Ada' }, { priority: 3, uniqueKey: 'one' })
      const job = await jobIn(box, id, 'completed')
      assert.deepEqual(job.result, { hello: 'Ada' })
      assert.deepEqual([job.attempt, job.workerId, job.error], [1, 'ada', null])
      assert.ok(job.startedAt! >= job.createdAt && job.finishedAt! >= job.startedAt!)
      const [given] = seen
      assert.deepEqual(
        [
          given?.id,
          given?.kind,
          given?.queue,
          given?.priority,
          given?.uniqueKey,
          given?.attempt,
          given?.state,
        ],
        [id, 'greet', 'default', 3, 'one', 1, 'running'],
      )
      await until('it is counted', () => worker.counts.completed === 1)
    })

    stage.story('a handler that throws fails its job, which is retried and finally dead', async (scene) => {
      const box = await scene.open()
      const attempts: number[] = []
      const worker = await scene.work(box, {
        handlers: {
          fail: (job) => {
            attempts.push(job.attempt)
            throw Object.assign(new RangeError('too much'), { code: 'E_MUCH' })
          },
        },
      })
      const { id } = await box.jobs.add('fail', {}, { maxAttempts: 3, ...soon })
      const job = await jobIn(box, id, 'dead')
      assert.deepEqual(attempts, [1, 2, 3])
      const { name, message, code } = job.error!
      assert.deepEqual([name, message, code, job.attempt], ['RangeError', 'too much', 'E_MUCH', 3])
      await until('it is counted', () => worker.counts.failed === 3)
      assert.equal(worker.counts.completed, 0)
    })

    stage.story(
      'a handler that rejects, throws undefined or throws an unreadable value fails its job',
      async (scene) => {
        const box = await scene.open()
        const hostile = new Proxy(
          {},
          {
            get: () => assert.fail('do not look'),
            getPrototypeOf: () => assert.fail('do not look'),
          },
        )
        await scene.work(box, {
          handlers: {
            rejects: () => Promise.reject(new Error('rejected')),
            undefined: () => {
              throw undefined
            },
            rejectsUndefined: () => Promise.reject(),
            hostile: () => {
              throw hostile
            },
            rejectsHostile: () => Promise.reject(hostile),
            thenable: () => ({
              // biome-ignore lint/suspicious/noThenProperty: a foreign thenable is what this is about.
              get then() {
                throw new Error('then')
              },
            }),
            fine: () => 'fine',
          },
        })
        const kinds = ['rejects', 'undefined', 'rejectsUndefined', 'hostile', 'rejectsHostile', 'thenable']
        const added = await box.jobs.addMany(kinds.map((kind) => ({ kind, maxAttempts: 1 })))
        const messages: string[] = []
        for (const { id } of added) messages.push((await jobIn(box, id, 'dead')).error!.message)
        assert.deepEqual(messages.slice(0, 3), ['rejected', 'undefined was thrown.', 'undefined was thrown.'])
        assert.equal(messages[5], 'then')
        const { id } = await box.jobs.add('fine')
        assert.equal((await jobIn(box, id, 'completed')).result, 'fine')
      },
    )

    stage.story(
      'a result that is not JSON is dropped with a warning, and the job completes',
      async (scene) => {
        const box = await scene.open()
        const worker = await scene.work(box, { handlers: { odd: () => ({ at: new Date() }) } })
        const warned = worker.once('warning')
        const { id } = await box.jobs.add('odd')
        assert.match((await warned).message, new RegExp(id))
        assert.equal((await jobIn(box, id, 'completed')).result, null)
      },
    )

    stage.story(
      'job.ack and job.nack without a transaction end the job at once, and only once',
      async (scene) => {
        const box = await scene.open()
        const refusals: unknown[] = []
        const worker = await scene.work(box, {
          handlers: {
            acks: async (job) => {
              await job.ack({ result: 'early' })
              await job.nack().catch((error) => refusals.push(error.code))
              throw new Error('after the fact')
            },
            nacks: (job) => job.nack({ error: 'not today', dead: true }),
          },
        })
        const late = worker.once('late')
        const [acked, nacked] = await box.jobs.addMany([{ kind: 'acks' }, { kind: 'nacks' }])
        assert.equal((await jobIn(box, acked!.id, 'completed')).result, 'early')
        assert.equal((await jobIn(box, nacked!.id, 'dead')).error?.message, 'not today')
        assert.match(String((await late).error), /after the fact/)
        assert.deepEqual(refusals, ['lease_lost'])
        assert.equal((await box.jobs.find(acked!.id))?.state, 'completed')
      },
    )

    stage.localStory(
      'job.transaction completes the job with the value that its work returned',
      async (scene) => {
        const box = await scene.open()
        const worker = await scene.work(box, {
          handlers: { charge: (job) => job.transaction(() => ({ ok: job.payload })) },
        })
        const { id } = await box.jobs.add('charge', 7)
        assert.deepEqual((await jobIn(box, id, 'completed')).result, { ok: 7 })
        await until('it is counted', () => worker.counts.completed === 1)
      },
    )

    stage.callerStory('job.transaction commits the rows and the ack together', async (scene) => {
      const box = await scene.open()
      await scene.connect()
      const pay = payer(scene)
      await scene.work(box, {
        handlers: {
          charge: (job) =>
            job.transaction(async (tx) => {
              await pay(tx, job, 'paid')
              assert.equal((await box.jobs.find(job.id))?.state, 'running')
              return { ok: true }
            }),
        },
      })
      const { id } = await box.jobs.add('charge')
      assert.deepEqual((await jobIn(box, id, 'completed')).result, { ok: true })
      assert.deepEqual(await scene.paid(), ['paid'])
    })

    stage.callerStory(
      'a throw inside job.transaction rolls back the rows and fails the attempt',
      async (scene) => {
        const box = await scene.open()
        await scene.connect()
        const pay = payer(scene)
        await scene.work(box, {
          handlers: {
            charge: (job) =>
              job.transaction(async (tx) => {
                await pay(tx, job, `attempt ${job.attempt}`)
                if (job.attempt === 1) throw new Error('card refused')
              }),
          },
        })
        const { id } = await box.jobs.add('charge', {}, { backoff: { baseMs: 300, jitter: 0 } })
        const failed = await jobWhen(box, id, ({ error }) => error !== null)
        assert.deepEqual([failed.error?.message, failed.attempt], ['card refused', 1])
        assert.deepEqual(await scene.paid(), [])
        assert.equal((await jobIn(box, id, 'completed')).attempt, 2)
        assert.deepEqual(await scene.paid(), ['attempt 2'])
      },
    )

    stage.callerStory(
      'a failed statement fails the attempt and rolls back its whole transaction',
      async (scene) => {
        const box = await scene.open()
        await scene.connect()
        const pay = payer(scene)
        await scene.work(box, {
          handlers: {
            charge: (job) =>
              job.transaction(async (tx) => {
                await pay(tx, job, 'half')
                await tx.query('INSERT INTO there_is_no_such_table VALUES (1)')
              }),
          },
        })
        const { id } = await box.jobs.add('charge', {}, { maxAttempts: 1 })
        const { error } = await jobIn(box, id, 'dead')
        assert.match(error!.message, /there_is_no_such_table/)
        assert.deepEqual(await scene.paid(), [])
      },
    )

    stage.callerStory(
      'a handler that forgets to await its transaction is not acked before that ends',
      async (scene) => {
        const box = await scene.open()
        await scene.connect()
        const pay = payer(scene)
        await scene.work(box, {
          handlers: {
            charge: (job) => {
              void job.transaction(async (tx) => {
                await pay(tx, job, `attempt ${job.attempt}`)
                if (job.attempt === 1) throw new Error('card refused')
                return 'paid'
              })
            },
          },
        })
        const { id } = await box.jobs.add('charge', {}, soon)
        const job = await jobIn(box, id, 'completed')
        assert.deepEqual([job.attempt, job.result], [2, 'paid'])
        assert.deepEqual(await scene.paid(), ['attempt 2'])
      },
    )

    stage.callerStory('a handler adds a job in the transaction that settles its own', async (scene) => {
      const box = await scene.open()
      await scene.work(box, {
        handlers: {
          first: (job) =>
            job.transaction(async (tx) => {
              const { id } = await box.jobs.add('second', { after: job.id }, { tx })
              if (job.attempt === 1) throw new Error('not yet')
              return id
            }),
          second: () => 'done',
        },
      })
      const { id } = await box.jobs.add('first', {}, soon)
      const { result } = await jobIn(box, id, 'completed')
      await jobIn(box, result as string, 'completed')
      // The row of the failed attempt was rolled back with it.
      assert.equal((await box.jobs.list({ kind: 'second' })).items.length, 1)
    })

    stage.callerStory('basic use: business rows and ack in the user’s own transaction', async (scene) => {
      const box = await scene.open()
      const session = await scene.connect()
      const worker = await scene.work(box, {
        handlers: {
          charge: async (job) => {
            await session.begin()
            await session.exec(insert, scene.namespace, job.id, `order ${job.payload.orderId}`)
            await job.ack({ tx: session.tx, result: { ok: true } })
            await session.commit()
            return { ok: true }
          },
        },
      })
      const completed = worker.once('completed')
      const { id } = await box.jobs.add('charge', { orderId: 7 })
      assert.equal((await completed).job.id, id)
      const job = await jobIn(box, id, 'completed')
      assert.deepEqual([job.result, job.attempt], [{ ok: true }, 1])
      assert.deepEqual(await scene.paid(), ['order 7'])
      assert.deepEqual([worker.counts.completed, worker.counts.failed, worker.counts.lost], [1, 0, 0])
    })

    stage.callerStory(
      'error handling: nack in the transaction, commit, then throw settles once',
      async (scene) => {
        const box = await scene.open()
        const session = await scene.connect()
        const attempts: number[] = []
        const worker = await scene.work(box, {
          handlers: {
            charge: async (job) => {
              attempts.push(job.attempt)
              await session.begin()
              await session.exec(insert, scene.namespace, job.id, 'tried')
              await job.nack({
                tx: session.tx,
                error: { message: 'no funds', code: 'E_FUNDS' },
                retryInMs: '1h',
              })
              await session.commit()
              throw new Error('thrown after the commit')
            },
          },
        })
        const failed = worker.once('failed')
        const late = worker.once('late')
        const { id } = await box.jobs.add('charge')
        const { state, error } = await failed
        assert.deepEqual([state, error], ['scheduled', { message: 'no funds', code: 'E_FUNDS' }])
        assert.match(String((await late).error), /thrown after the commit/)
        const job = await box.jobs.find(id)
        assert.deepEqual(
          [job?.state, job?.attempt, job?.error?.message, job?.error?.code],
          ['scheduled', 1, 'no funds', 'E_FUNDS'],
        )
        assert.ok(job!.runAt > Date.now() + 3_000_000)
        assert.deepEqual(await scene.paid(), ['tried'])
        assert.deepEqual(attempts, [1])
        assert.deepEqual([worker.counts.completed, worker.counts.failed, worker.counts.lost], [0, 1, 0])
      },
    )

    stage.callerStory(
      'box.jobs.ack in a handler is the same as job.ack, also when it is rolled back',
      async (scene) => {
        const box = await scene.open()
        const session = await scene.connect()
        const worker = await scene.work(box, {
          handlers: {
            charge: async (job) => {
              await session.begin()
              await session.exec(insert, scene.namespace, job.id, `attempt ${job.attempt}`)
              await box.jobs.ack(job, { tx: session.tx, result: 'kept' })
              if (job.attempt === 1) await session.rollback()
              else await session.commit()
              return 'not this'
            },
            refuse: (job) => box.jobs.nack(job, { error: 'no', dead: true }),
          },
        })
        const { id } = await box.jobs.add('charge', {}, soon)
        const job = await jobIn(box, id, 'completed')
        assert.deepEqual([job.attempt, job.result], [2, 'kept'])
        assert.deepEqual(await scene.paid(), ['attempt 2'])
        const refused = await box.jobs.add('refuse')
        assert.equal((await jobIn(box, refused.id, 'dead')).error?.message, 'no')
        await until('all are counted', () => worker.counts.failed === 2 && worker.counts.completed === 1)
        assert.equal(worker.counts.lost, 0)
      },
    )

    stage.callerStory('after a committed ack, an error of the handler changes nothing', async (scene) => {
      const box = await scene.open()
      const session = await scene.connect()
      const worker = await scene.work(box, {
        handlers: {
          charge: async (job) => {
            await session.begin()
            await job.ack({ tx: session.tx, result: 'kept' })
            await session.commit()
            throw new Error('afterwards')
          },
          own: async (job) => {
            await job.transaction(() => 'kept')
            throw new Error('afterwards')
          },
        },
      })
      const late: unknown[] = []
      worker.on('late', ({ error }) => late.push(error))
      const added = await box.jobs.addMany([{ kind: 'charge' }, { kind: 'own' }])
      await until('both throws are reported', () => late.length === 2)
      for (const { id } of added) {
        const job = await box.jobs.find(id)
        assert.deepEqual([job?.state, job?.result, job?.error, job?.attempt], ['completed', 'kept', null, 1])
      }
      assert.equal(worker.counts.completed, 2)
    })

    stage.callerStory('a job whose ack was rolled back is retried within a second', async (scene) => {
      const box = await scene.open()
      const session = await scene.connect()
      let rolledBackAt = 0
      // The second attempt ends after the test has read the error of the first.
      let isSeen = deferred()
      await scene.work(box, {
        leaseMs: 30_000,
        handlers: {
          returns: async (job) => {
            if (job.attempt > 1) return isSeen.promise.then(() => 'second')
            await session.begin()
            await session.exec(insert, scene.namespace, job.id, 'never')
            await job.ack({ tx: session.tx })
            await session.rollback()
            rolledBackAt = performance.now()
            return 'first'
          },
          throws: async (job) => {
            if (job.attempt > 1) return isSeen.promise.then(() => 'second')
            await session.begin()
            await job.ack({ tx: session.tx })
            await session.rollback()
            rolledBackAt = performance.now()
            throw new Error('changed my mind')
          },
        },
      })
      for (const [kind, code, message] of [
        ['returns', 'ack_missing', /rolled back/],
        ['throws', undefined, /changed my mind/],
      ] as const) {
        isSeen = deferred()
        const { id } = await box.jobs.add(kind, {}, { backoff: { baseMs: 100, jitter: 0 } })
        const failed = await jobWhen(box, id, ({ error }) => error !== null)
        // Ten times the promised time; the lease would take longer still.
        assert.ok(performance.now() - rolledBackAt < 10_000)
        assert.equal(failed.error?.code, code)
        assert.match(failed.error!.message, message)
        isSeen.resolve()
        assert.deepEqual([(await jobIn(box, id, 'completed')).result], ['second'])
      }
      assert.deepEqual(await scene.paid(), [])
    })

    stage.localStory(
      'finish: "transaction" fails a handler that returns without a committed ack',
      async (scene) => {
        const box = await scene.open()
        const isSeen = deferred()
        const worker = await scene.work(box, {
          handlers: {
            charge: {
              finish: 'transaction',
              async run(job) {
                if (job.attempt === 1) return 'forgotten'
                await isSeen.promise
                return job.transaction(() => 'done')
              },
            },
          },
        })
        const warned = worker.once('warning')
        const { id } = await box.jobs.add('charge', {}, { backoff: { baseMs: 100, jitter: 0 } })
        assert.match((await warned).message, /without a committed ack/)
        const failed = await jobWhen(box, id, ({ error }) => error !== null)
        assert.equal(failed.error?.code, 'ack_missing')
        assert.equal(worker.counts.ackMissing, 1)
        isSeen.resolve()
        assert.equal((await jobIn(box, id, 'completed')).result, 'done')
        assert.equal(worker.counts.ackMissing, 1)
      },
    )

    stage.localStory(
      'a second ack, nack or transaction inside job.transaction is refused with advice',
      async (scene) => {
        const box = await scene.open()
        const worker = await scene.work(box, {
          handlers: {
            ends: (job) =>
              job.transaction(async (tx) => {
                const verbs = {
                  ack: () => job.ack({ tx }),
                  bare: () => job.ack(),
                  nack: () => job.nack({ tx, dead: true }),
                  snooze: () => job.snooze('1h'),
                  nested: () => job.transaction(() => 'inner'),
                }
                const ended = verbs[job.payload.verb as keyof typeof verbs]()
                return job.payload.swallows ? ended.catch(() => 'swallowed') : ended
              }),
          },
        })
        const jobs = ['ack', 'bare', 'nack', 'snooze', 'nested'].flatMap((verb) =>
          [false, true].map((swallows) => ({ kind: 'ends', payload: { verb, swallows }, maxAttempts: 1 })),
        )
        for (const { id } of await box.jobs.addMany(jobs)) {
          const { error, payload } = await jobIn(box, id, 'dead')
          assert.equal(error?.code, 'invalid_argument', JSON.stringify(payload))
          assert.match(
            error.message,
            /inside job\.transaction, which ends job ".+" itself\. Return the result/,
          )
        }
        assert.equal(worker.counts.lost, 0)
      },
    )

    stage.callerStory(
      'an invalid or foreign transaction is refused and nothing is written',
      async (scene) => {
        const box = await scene.open()
        const session = await scene.connect()
        const codes: unknown[] = []
        await scene.work(box, {
          handlers: {
            charge: async (job) => {
              for (const tx of [session.tx, {}, 'tx', null, 5] as never[]) {
                await job.ack({ tx }).catch((error: { code: unknown }) => codes.push(error.code))
              }
              return 'plain'
            },
          },
        })
        for (const tx of [session.tx, {}, 'tx', null, 5] as never[]) {
          await assert.rejects(box.jobs.add('x', {}, { tx }), { name: 'SignalboxError' })
          await assert.rejects(box.jobs.addMany([{ kind: 'x' }], { tx }), { name: 'SignalboxError' })
        }
        const { id } = await box.jobs.add('charge', {}, { maxAttempts: 1 })
        // A handler that uses `tx` has to ack in it: a return is then no ack.
        assert.equal((await jobIn(box, id, 'dead')).error?.code, 'ack_missing')
        assert.deepEqual(codes, ['transaction_required', ...Array(4).fill('invalid_argument')])
        assert.equal((await box.jobs.list({ kind: 'x' })).items.length, 0)
      },
    )

    stage.callerStory(
      'the outbox: jobs added in a transaction exist after its commit, and not before',
      async (scene) => {
        const box = await scene.open()
        const session = await scene.connect()
        const seen: unknown[] = []
        await scene.work(box, { handlers: { mail: (job) => seen.push(job.payload) } })

        await session.begin()
        await session.exec(insert, scene.namespace, 'none', 'never')
        const gone = await box.jobs.addMany([{ kind: 'mail', payload: 'never' }], { tx: session.tx })
        const goneToo = await box.jobs.add('mail', 'never', { tx: session.tx })
        await session.rollback()
        for (const { id } of [...gone, goneToo]) assert.equal(await box.jobs.find(id), undefined)

        await session.begin()
        await session.exec(insert, scene.namespace, 'some', 'order')
        const added = await box.jobs.addMany(
          [
            { kind: 'mail', payload: 1 },
            { kind: 'mail', payload: 2 },
          ],
          {
            tx: session.tx,
          },
        )
        if (stage.name !== 'sqlite') assert.equal(await box.jobs.find(added[0]!.id), undefined)
        await session.commit()
        box.jobs.wake('default')
        for (const { id } of added) await jobIn(box, id, 'completed')
        assert.deepEqual(seen.sort(), [1, 2])
        assert.deepEqual(await scene.paid(), ['order'])
      },
    )

    stage.callerStory(
      'grouped transactions share a commit, and a failed one rolls back alone',
      async (scene) => {
        const box = await scene.open()
        await scene.connect()
        const pay = payer(scene)
        await scene.work(box, {
          concurrency: 10,
          handlers: {
            charge: {
              group: 10,
              run: (job) =>
                job.transaction(async (tx) => {
                  await pay(tx, job, `order ${job.payload}`)
                  if (job.payload === 3) throw new Error('card refused')
                  return job.payload
                }),
            },
          },
        })
        const added = await box.jobs.addMany(
          Array.from({ length: 10 }, (_, order) => ({ kind: 'charge', payload: order, maxAttempts: 1 })),
        )
        const states: string[] = []
        for (const { id } of added)
          states.push((await jobWhen(box, id, ({ finishedAt }) => finishedAt !== null)).state)
        assert.deepEqual(
          states,
          Array.from({ length: 10 }, (_, order) => (order === 3 ? 'dead' : 'completed')),
        )
        assert.deepEqual(
          await scene.paid(),
          [0, 1, 2, 4, 5, 6, 7, 8, 9].map((order) => `order ${order}`),
        )
      },
    )

    stage.rowLockStory(
      'an ack long before the commit does not delay other jobs',
      (scene) =>
        inGrowingLeases(400, async (leaseMs, stills) => {
          const box = await scene.open()
          const session = await scene.connect()
          const neighbour = deferred()
          const isKept = deferred()
          isKept.promise.catch(() => undefined)
          // The worker of another story may still exist.
          const [acks, waits] = [`acks ${leaseMs}`, `waits ${leaseMs}`] as const
          const worker = await scene.work(box, {
            leaseMs,
            handlers: {
              [acks]: async (job) => {
                try {
                  await session.begin()
                  await job.ack({ tx: session.tx, result: 'slow' })
                  await leasesOver(box, neighbourId!, 3 * leaseMs, stills)
                  isKept.resolve()
                } catch (error) {
                  isKept.reject(error)
                } finally {
                  await session.commit()
                  neighbour.resolve()
                }
              },
              [waits]: () => neighbour.promise,
            },
          })
          let neighbourId: string | undefined
          neighbourId = (await box.jobs.add(waits)).id
          await jobIn(box, neighbourId, 'running')
          const { id } = await box.jobs.add(acks)
          await isKept.promise
          assert.equal((await jobIn(box, id, 'completed')).result, 'slow')
          assert.deepEqual([(await jobIn(box, neighbourId, 'completed')).attempt, worker.counts.lost], [1, 0])
        }),
      60_000,
    )
  })
}

/** Polls the job for this long and checks that it runs in its first attempt. */
async function leasesOver(box: Box, id: string, ms: number, stills: Stills): Promise<void> {
  const end = performance.now() + ms
  while (performance.now() < end) {
    const job = await stills.during(box.jobs.find(id))
    assert.deepEqual([job?.state, job?.attempt], ['running', 1])
    await new Promise((resolve) => setTimeout(resolve, 20))
  }
}
