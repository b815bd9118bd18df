/** How workers start, share, wait and stop. */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe } from 'vitest'
import { deferred, jobIn, jobWhen, stages, until } from './stage.ts'

const run = promisify(execFile)

for (const stage of stages()) {
  describe(stage.title, () => {
    stage.story('two workers share a queue, and each job runs once', async (scene) => {
      const box = await scene.open()
      const other = await scene.openAnother(box)
      const runs = new Map<string, number>()
      const handlers = {
        count: async (job: { id: string }) => {
          await null
          runs.set(job.id, (runs.get(job.id) ?? 0) + 1)
        },
      }
      const workers = [
        await scene.work(box, { concurrency: 5, handlers }),
        await scene.work(other, { concurrency: 5, handlers }),
      ]
      const ids: string[] = []
      for (let batch = 0; batch < 10; batch++) {
        const added = await box.jobs.addMany(Array.from({ length: 50 }, () => ({ kind: 'count' })))
        ids.push(...added.map(({ id }) => id))
      }
      const completed = () => workers.reduce((sum, { counts }) => sum + counts.completed, 0)
      await until('all are done', () => completed() === 500)
      assert.deepEqual(
        ids.map((id) => runs.get(id)),
        ids.map(() => 1),
      )
      assert.equal((await box.jobs.list({ state: 'completed', limit: 500 })).items.length, 500)
    })

    stage.story('one slot runs jobs by priority, then due time, then order of arrival', async (scene) => {
      const box = await scene.open()
      const order: unknown[] = []
      await box.jobs.pause('default')
      for (const [payload, priority] of [
        ['c1', 0],
        ['a1', 9],
        ['c2', 0],
        ['d1', -5],
        ['b1', 3],
        ['a2', 9],
      ] as const)
        await box.jobs.add('note', payload, { priority })
      const last = await box.jobs.add('note', 'd2', { priority: -5 })
      await scene.work(box, { concurrency: 1, handlers: { note: (job) => order.push(job.payload) } })
      await box.jobs.resume('default')
      await jobIn(box, last.id, 'completed')
      assert.deepEqual(order, ['a1', 'a2', 'b1', 'c1', 'c2', 'd1', 'd2'])
    })

    stage.story('jobs of a paused queue do not run, and other queues continue', async (scene) => {
      const box = await scene.open()
      await box.jobs.pause('slow')
      await scene.work(box, { queues: ['slow', 'quick'], handlers: { mail: () => 'sent' } })
      const paused = await box.jobs.add('mail', {}, { queue: 'slow', priority: 100 })
      const other = await box.jobs.add('mail', {}, { queue: 'quick' })
      await jobIn(box, other.id, 'completed')
      assert.deepEqual([(await box.jobs.find(paused.id))?.state], ['ready'])
      assert.equal((await box.jobs.stats()).find(({ queue }) => queue === 'slow')?.paused, true)
      await box.jobs.resume('slow')
      await jobIn(box, paused.id, 'completed')
    })

    stage.story('a job runs soon after it is due, and not before', async (scene) => {
      const box = await scene.open()
      await scene.work(box, { handlers: { mail: () => 'sent' } })
      const { id } = await box.jobs.add('mail', {}, { delayMs: 400 })
      const job = await jobIn(box, id, 'completed')
      assert.ok(job.startedAt! >= job.runAt, `${job.startedAt} ${job.runAt}`)
      assert.ok(job.runAt >= job.createdAt + 400)
      assert.ok(job.startedAt! < job.runAt + 2_500)
    })

    stage.story(
      'QL2: a job that another box adds starts soon, without waiting for the poll',
      async (scene) => {
        const box = await scene.open()
        const other = await scene.openAnother(box)
        // MariaDB has no notifier between processes; only the poll remains. A server has one for all its clients.
        const pollMs = stage.name === 'mariadb' && !stage.isRemote ? 250 : 30_000
        const begun: number[] = []
        await scene.work(box, { pollMs, handlers: { mail: () => begun.push(performance.now()) } })
        const waits: number[] = []
        for (let nth = 0; nth < 6; nth++) {
          const addedAt = performance.now()
          await other.jobs.add('mail', nth)
          await until('it has begun', () => begun.length === nth + 1, 5_000)
          waits.push(begun[nth]! - addedAt)
        }
        // Ten times the promised time, because this machine may run ten other things.
        assert.ok(Math.max(...waits) <= 2_500, `${waits.map(Math.round)} ms`)
      },
    )

    stage.story('single adds made in one tick all arrive, in order', async (scene) => {
      const box = await scene.open()
      const added = await Promise.all(Array.from({ length: 300 }, (_, n) => box.jobs.add('mail', n)))
      const ids = added.map(({ id }) => id)
      assert.deepEqual(ids, ids.toSorted())
      const { items, cursor } = await box.jobs.list({ limit: 200 })
      assert.deepEqual(
        items.map(({ payload }) => payload),
        Array.from({ length: 200 }, (_, n) => 299 - n),
      )
      const rest = await box.jobs.list({ limit: 200, cursor })
      assert.deepEqual([rest.items.length, rest.cursor], [100, null])
    })

    stage.story('adds that race for a unique key all get the id of the one job', async (scene) => {
      const box = await scene.open()
      const other = await scene.openAnother(box)
      const adds = Array.from({ length: 20 }, (_, n) =>
        (n % 2 === 0 ? box : other).jobs.add('mail', n, { uniqueKey: 'Ada' }),
      )
      const added = await Promise.all([...adds, box.jobs.add('mail', 'other', { uniqueKey: 'ada' })])
      const others = added.pop()!
      assert.equal(new Set(added.map(({ id }) => id)).size, 1)
      assert.equal(added.filter(({ duplicate }) => !duplicate).length, 1)
      assert.equal(others.duplicate, false)
      const handlers = { mail: () => undefined }
      await scene.work(box, { handlers })
      await jobIn(box, added[0]!.id, 'completed')
      assert.equal((await box.jobs.add('mail', 'again', { uniqueKey: 'Ada' })).duplicate, false)
    })

    stage.story('a stopping worker lets running handlers finish within its grace time', async (scene) => {
      const box = await scene.open()
      const done = deferred()
      const worker = await scene.work(box, { handlers: { long: () => done.promise } })
      const { id } = await box.jobs.add('long')
      await until('it runs', () => worker.load.running === 1)
      const stopped = worker.stop({ graceMs: 10_000 })
      assert.equal(worker.ready, false)
      const { id: later } = await box.jobs.add('long')
      done.resolve()
      await stopped
      assert.deepEqual([(await box.jobs.find(id))?.state], ['completed'])
      // Nothing new was begun meanwhile.
      assert.deepEqual(
        [(await box.jobs.find(later))?.state, (await box.jobs.find(later))?.attempt],
        ['ready', 0],
      )
      await assert.rejects(worker.start(), { code: 'closed' })
    })

    stage.story(
      'QL4: jobs that a stopping worker cannot finish are handed back, lose no attempt and are ready at once',
      async (scene) => {
        const box = await scene.open()
        const other = await scene.openAnother(box)
        const signals: AbortSignal[] = []
        const worker = await scene.work(box, {
          concurrency: 3,
          handlers: {
            // A quick start, so that some jobs are claimed ahead; then handlers that never end.
            mixed: (job, { signal }) => {
              if (job.payload < 100) return null
              signals.push(signal)
              return new Promise(() => undefined)
            },
          },
        })
        const added = await box.jobs.addMany(
          Array.from({ length: 200 }, (_, n) => ({ kind: 'mixed', payload: n })),
        )
        await until('three hang', () => signals.length === 3)
        const begunAt = performance.now()
        await worker.stop({ graceMs: 100 })
        assert.ok(performance.now() - begunAt < 10_000)
        assert.ok(signals.every(({ aborted }) => aborted))
        assert.ok(worker.counts.handedBack >= 3)
        const { items } = await box.jobs.list({ state: 'ready', limit: 500 })
        assert.equal(items.length, 100)
        assert.deepEqual([...new Set(items.map(({ attempt }) => attempt))], [0])
        await scene.work(other, { handlers: { mixed: (job) => job.attempt } })
        const last = await jobIn(box, added[199]!.id, 'completed')
        assert.equal(last.result, 1)
      },
    )

    stage.story('closing the box stops its workers, and it creates no new ones', async (scene) => {
      const box = await scene.open()
      const watcher = stage.name === 'memory' ? undefined : await scene.open()
      const worker = box.jobs.worker({ handlers: { mail: () => 'sent' } })
      await worker.start()
      const { id } = await box.jobs.add('mail')
      await jobIn(box, id, 'completed')
      await Promise.all([box.close(), box.close()])
      assert.deepEqual([worker.ready, worker.load.running], [false, 0])
      await assert.rejects(box.jobs.add('mail'), { code: 'closed' })
      await assert.rejects(worker.start(), { code: 'closed' })
      assert.throws(() => box.jobs.worker({ handlers: { mail: () => 'sent' } }), { code: 'closed' })
      if (watcher) await jobWhen(watcher, id, ({ state }) => state === 'completed')
    })

    stage.story('a process that closed its box can exit', async (scene) => {
      const script = fileURLToPath(new URL('closer.ts', import.meta.url))
      const { stdout } = await run(process.execPath, ['--conditions=source', script], {
        env: { ...process.env, URL_OF_STORE: await stage.url(), NAMESPACE_OF_STORE: scene.namespace },
        timeout: 12_000,
      })
      assert.match(stdout, /^closed \{"sent":true\}$/m)
    })

    stage.localStory('with a retention, ended jobs are deleted and live jobs are kept', async (scene) => {
      const box = await scene.open({ retentionMs: 50 })
      await scene.work(box, { handlers: { mail: () => 'sent' } })
      const kept = await box.jobs.add('mail', {}, { delayMs: '1h' })
      const { id } = await box.jobs.add('mail')
      await until('it is forgotten', async () => (await box.jobs.find(id)) === undefined)
      assert.equal((await box.jobs.find(kept.id))?.state, 'scheduled')
    })
  })
}
