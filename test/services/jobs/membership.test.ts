/** Workers as members: every caller sees all workers of a store, and operators' requests reach each worker. */
import assert from 'node:assert/strict'
import type { Box } from 'signalbox'
import { defineJob } from 'signalbox'
import { describe } from 'vitest'
import { z } from 'zod'
import { version } from '../../../src/core/version.ts'
import { deferred, jobIn, stages, until } from './stage.ts'

for (const stage of stages()) {
  describe(stage.title, { concurrent: true }, () => {
    stage.story('other boxes see a worker with the details that it registered', async (scene) => {
      const box = await scene.open({ jobs: { release: '2026-11-18' } })
      const other = await scene.openAnother(box)
      const mail = defineJob('mail', { schema: z.object({ to: z.string() }) })
      const sms = defineJob('sms', { schema: z.object({}), jsonSchema: { title: 'own' } })
      const handlers = [mail.handle(() => 'sent'), sms.handle(() => 'sent'), { kind: 'a', handler: () => 1 }]
      await scene.work(box, { handlers, queues: ['post', 'default'], concurrency: 7, workerId: 'ada' })
      await scene.work(box, { handlers: { mail: () => 1 }, workerId: 'bob', release: 'own' })
      await until('both are listed', async () => (await other.jobs.workers()).items.length === 2)
      const { items, cursor, at } = await other.jobs.workers()
      const [ada, bob] = items
      assert.equal(cursor, null)
      const { startedAt, seenAt, leaseEndsAt, host, ...said } = ada!
      assert.deepEqual(said, {
        ...{ id: 'ada', workerId: 'ada', state: 'running', wanted: 'run' },
        ...{ via: stage.isRemote ? 'remote' : 'library', pid: process.pid },
        ...{ queues: ['post', 'default'], kinds: ['a', 'mail', 'sms'], concurrency: 7 },
        ...{ running: [], runningCount: 0, release: '2026-11-18', version },
      })
      assert.ok(host && startedAt <= seenAt && seenAt <= at && leaseEndsAt > at)
      assert.deepEqual([bob!.id, bob!.release, bob!.kinds], ['bob', 'own', ['mail']])
      const { schemas, ...found } = (await other.jobs.findWorker('ada'))!
      assert.deepEqual([found.id, found.queues], ['ada', ada!.queues])
      assert.deepEqual(Object.keys(schemas).sort(), ['mail', 'sms'])
      assert.equal((schemas.mail as { type: string }).type, 'object')
      assert.deepEqual(schemas.sms, { title: 'own' })
      assert.equal(await other.jobs.findWorker('eve'), undefined)
    })

    stage.story('workers are found by queue, kind, state, host and release, page by page', async (scene) => {
      const box = await scene.open()
      const ids = ['w1', 'w2', 'w3', 'w4', 'w5']
      for (const [nr, workerId] of ids.entries())
        await scene.work(box, {
          workerId,
          queues: [nr % 2 === 0 ? 'even' : 'odd'],
          handlers: { [`k${nr}`]: () => 1 },
          release: `r${nr % 3}`,
        })
      await until('all are listed', async () => (await box.jobs.workers()).items.length === 5)
      const find = async (options: Parameters<Box['jobs']['workers']>[0]) =>
        (await box.jobs.workers(options)).items.map(({ id }) => id)
      assert.deepEqual(await find({ queue: 'odd' }), ['w2', 'w4'])
      assert.deepEqual(await find({ kind: 'k4' }), ['w5'])
      assert.deepEqual(await find({ release: 'r0', queue: 'even' }), ['w1'])
      assert.deepEqual(await find({ state: 'gone' }), [])
      assert.deepEqual(await find({ host: 'nowhere' }), [])
      const first = await box.jobs.workers({ limit: 2 })
      const second = await box.jobs.workers({ limit: 2, cursor: first.cursor })
      const third = await box.jobs.workers({ limit: 2, cursor: second.cursor })
      assert.deepEqual(
        [first, second, third].map(({ items }) => items.map(({ id }) => id)),
        [['w1', 'w2'], ['w3', 'w4'], ['w5']],
      )
      assert.equal(third.cursor, null)
      const even = await box.jobs.workers({ queue: 'even', limit: 2 })
      assert.deepEqual(await find({ queue: 'even', limit: 2, cursor: even.cursor }), ['w5'])
      await assert.rejects(box.jobs.workers({ cursor: '!' }), { code: 'invalid_argument' })
      await assert.rejects(box.jobs.workers({ state: 'odd' as never }), { code: 'invalid_argument' })
    })

    stage.story(
      'two workers of one name are two members, and the second name gets a suffix',
      async (scene) => {
        const box = await scene.open()
        const other = await scene.openAnother(box)
        for (const one of [box, other])
          await scene.work(one, { workerId: 'mail', handlers: { mail: () => 1 } })
        await until('both are listed', async () => (await box.jobs.workers()).items.length === 2)
        const { items } = await box.jobs.workers()
        assert.deepEqual(
          items.map(({ workerId }) => workerId),
          ['mail', 'mail'],
        )
        assert.equal(items[0]!.id, 'mail')
        assert.match(items[1]!.id, /^mail#[0-9a-f]{6}$/)
      },
    )

    stage.story('a worker that stopped cleanly leaves the list', async (scene) => {
      const box = await scene.open()
      const worker = await scene.work(box, { workerId: 'ada', handlers: { mail: () => 1 } })
      await until('it is listed', async () => (await box.jobs.workers()).items.length === 1)
      await worker.stop()
      assert.deepEqual((await box.jobs.workers()).items, [])
      // Also where it stops right after its start.
      for (let round = 0; round < 5; round++) {
        const brief = await scene.work(box, { workerId: `brief${round}`, handlers: { mail: () => 1 } })
        await brief.stop()
      }
      assert.deepEqual((await box.jobs.workers()).items, [])
    })

    stage.story(
      'a quiet worker finishes its running jobs and claims none until it is resumed',
      async (scene) => {
        const box = await scene.open()
        const other = await scene.openAnother(box)
        const [begun, end] = [deferred(), deferred()]
        const handlers = {
          async slow() {
            begun.resolve()
            await end.promise
          },
          mail: () => 'sent',
        }
        const worker = await scene.work(box, { workerId: 'ada', concurrency: 1, handlers })
        const { id: slow } = await other.jobs.add('slow')
        await begun.promise
        await until('it is listed', async () => (await other.jobs.workers()).items.length === 1)
        // It may be claimed ahead, and is handed back then.
        const { id: next } = await other.jobs.add('mail')
        assert.equal((await other.jobs.quietWorker('ada')).wanted, 'quiet')
        await until('the worker is quiet', () => worker.mode === 'quiet')
        end.resolve()
        await jobIn(other, slow, 'completed')
        await until('its row says so', async () => (await other.jobs.findWorker('ada'))?.state === 'quiet')
        const { id: later } = await other.jobs.add('mail')
        // Longer than several polls.
        await new Promise((resolve) => setTimeout(resolve, 300))
        for (const id of [next, later]) assert.equal((await other.jobs.find(id))?.state, 'ready')
        assert.equal((await other.jobs.resumeWorker('ada')).wanted, 'run')
        for (const id of [next, later]) await jobIn(other, id, 'completed')
        assert.equal(worker.mode, 'running')
        await until('its row says so', async () => (await other.jobs.findWorker('ada'))?.state === 'running')
      },
    )

    stage.story('another worker runs the jobs that a quiet worker hands back', async (scene) => {
      const box = await scene.open()
      const other = await scene.openAnother(box)
      const begun = deferred()
      const handlers = {
        async hold(_: unknown, { signal }: { signal: AbortSignal }) {
          begun.resolve()
          await new Promise((resolve) => signal.addEventListener('abort', resolve))
        },
        mail: () => 'sent',
      }
      await scene.work(box, { workerId: 'ada', concurrency: 1, handlers })
      await box.jobs.add('hold', {}, { maxAttempts: 1 })
      await begun.promise
      await until('it is listed', async () => (await other.jobs.workers()).items.length === 1)
      const added = await other.jobs.addMany(Array.from({ length: 20 }, () => ({ kind: 'mail' })))
      await other.jobs.quietWorker('ada')
      await scene.work(other, { handlers: { mail: () => 'sent' } })
      for (const { id } of added) await jobIn(other, id, 'completed')
    })

    stage.story(
      'a worker that an operator stops finishes its running jobs and leaves the list',
      async (scene) => {
        const box = await scene.open()
        const other = await scene.openAnother(box)
        const [begun, end] = [deferred(), deferred()]
        const handlers = {
          async slow() {
            begun.resolve()
            await end.promise
          },
        }
        const worker = await scene.work(box, { workerId: 'ada', handlers })
        const stopped = worker.once('stopped')
        const { id } = await other.jobs.add('slow')
        await begun.promise
        await until('it is listed', async () => (await other.jobs.workers()).items.length === 1)
        assert.equal((await other.jobs.stopWorker('ada', { graceMs: '1h' })).wanted, 'stop')
        await until('its row says so', async () => (await other.jobs.findWorker('ada'))?.state === 'stopping')
        await assert.rejects(other.jobs.resumeWorker('ada'), { code: 'conflict' })
        end.resolve()
        assert.deepEqual(await stopped, { by: 'operator' })
        assert.equal(worker.mode, 'stopped')
        assert.deepEqual((await other.jobs.workers()).items, [])
        await jobIn(other, id, 'completed')
        await assert.rejects(other.jobs.quietWorker('ada'), { code: 'not_found' })
      },
    )

    stage.story(
      'the list shows the running jobs of each worker, longest first',
      async (scene) => {
        const box = await scene.open()
        const end = deferred()
        const worker = await scene.work(box, {
          workerId: 'ada',
          concurrency: 30,
          handlers: { slow: () => end.promise },
        })
        const added = await box.jobs.addMany(Array.from({ length: 25 }, () => ({ kind: 'slow' })))
        await until('all run', () => worker.load.running === 25)
        // A change of mode is written at once; a change of the jobs alone some seconds later.
        await box.jobs.quietWorker('ada').catch(() => undefined)
        await until(
          'the row has them',
          async () => (await box.jobs.findWorker('ada'))?.runningCount === 25,
          15_000,
        )
        const { running, at } = (await box.jobs.findWorker('ada'))!
        assert.equal(running.length, 20)
        for (const { id, kind, since } of running) {
          assert.ok(added.some((job) => job.id === id) && kind === 'slow')
          assert.ok(since <= at && at - since < 60_000)
        }
        assert.deepEqual(
          running.map(({ since }) => since),
          running.map(({ since }) => since).toSorted((a, b) => a - b),
        )
        end.resolve()
      },
      30_000,
    )

    stage.story('workers without membership work and are not listed', async (scene) => {
      const box = await scene.open({ jobs: { membership: false } })
      await scene.work(box, { handlers: { mail: () => 'sent' } })
      const { id } = await box.jobs.add('mail')
      await jobIn(box, id, 'completed')
      assert.deepEqual((await box.jobs.workers()).items, [])
    })
  })
}
