/** Jobs that wait: for other jobs, for a lock, or for a free slot of their queue. */
import assert from 'node:assert/strict'
import type { Box } from 'signalbox'
import type { ClaimedJob, ClaimOptions } from 'signalbox/jobs'
import { describe } from 'vitest'
import { jobIn, stages, until } from './stage.ts'

// Servers unblock waiting jobs on any engine, so over the wire one engine is enough.
const shown = stages().filter(({ isRemote, name }) => !isRemote || name === 'memory')

for (const stage of shown) {
  describe(stage.title, () => {
    stage.story('a job runs after all jobs of the fan that it depends on', async (scene) => {
      const box = await scene.open()
      const done: string[] = []
      await scene.work(box, {
        concurrency: 4,
        handlers: { part: (job) => void done.push(job.payload), sum: (job) => void done.push(job.payload) },
      })
      const [first, ...rest] = await box.jobs.addMany([
        { kind: 'part', payload: 'load', ref: 'load' },
        ...['a', 'b', 'c'].map((name) => ({ kind: 'part', payload: name, ref: name, after: 'load' })),
        { kind: 'sum', payload: 'sum', after: ['a', 'b', 'c'] },
      ])
      const sum = rest.at(-1)!
      await jobIn(box, sum.id, 'completed')
      assert.equal(done[0], 'load')
      assert.deepEqual(done.slice(1, 4).sort(), ['a', 'b', 'c'])
      assert.deepEqual(done.slice(4), ['sum'])
      const shown = await box.jobs.find(sum.id)
      assert.deepEqual(
        shown?.dependencies.toSorted((a, b) => (a.id < b.id ? -1 : 1)),
        rest.slice(0, 3).map(({ id }) => ({ id, state: 'completed', isMet: true })),
      )
      assert.equal((await box.jobs.find(first!.id))?.dependents.length, 3)
    })

    if (stage.hasTables && !stage.isRemote)
      stage.story('a job can depend only on existing jobs and on jobs of its transaction', async (scene) => {
        const box = await scene.open()
        const user = await scene.connect()
        const there = await box.jobs.add('there')
        await user.begin()
        // A snapshot from before the next job, where the engine keeps one.
        const [own] = await box.jobs.addMany([{ kind: 'own', after: there.id }], { tx: user.tx })
        // SQLite has one writer, and the transaction has it.
        const later = stage.name === 'sqlite' ? there : await box.jobs.add('later')
        await box.jobs.add('next', null, { after: [own!.id, there.id, later.id], tx: user.tx })
        const misspelt = [
          { kind: 'a', ref: 'first' },
          { kind: 'b', after: 'frist' },
        ]
        await assert.rejects(box.jobs.addMany(misspelt, { tx: user.tx }), {
          code: 'invalid_argument',
          message: /^addMany\[1\]\.after names "frist", and there is no such job/,
          details: { option: 'addMany[1].after', jobId: 'frist' },
        })
        await assert.rejects(box.jobs.add('c', null, { after: 'none', tx: user.tx }), {
          details: { option: 'add.after', jobId: 'none' },
        })
        await user.commit()
        const { items } = await box.jobs.list()
        assert.equal(
          items.some(({ kind }) => kind === 'a' || kind === 'b' || kind === 'c'),
          false,
        )
        assert.equal(items.filter(({ state }) => state === 'waiting').length, 2)
      })

    stage.story('when a job dies, its dependents fail or continue as their options say', async (scene) => {
      const box = await scene.open()
      const ran: string[] = []
      await scene.work(box, {
        handlers: {
          fails() {
            throw new Error('no luck')
          },
          next: (job) => void ran.push(job.payload),
        },
      })
      const [, cancelled, cascade, run, wait] = await box.jobs.addMany([
        { kind: 'fails', ref: 'f', maxAttempts: 1 },
        { kind: 'next', payload: 'cancel', ref: 'c', after: 'f' },
        { kind: 'next', payload: 'cascade', after: ['c'] },
        { kind: 'next', payload: 'run', after: { jobs: 'f', onFailure: 'run' } },
        { kind: 'next', payload: 'wait', after: { jobs: ['f'], onFailure: 'wait' } },
      ])
      const end = await jobIn(box, cancelled!.id, 'cancelled')
      assert.equal(end.error?.code, 'need_failed')
      await jobIn(box, cascade!.id, 'cancelled')
      await jobIn(box, run!.id, 'completed')
      assert.equal((await box.jobs.find(wait!.id))?.state, 'waiting')
      assert.deepEqual(ran, ['run'])
    })

    stage.story(
      'jobs for one lock run one after the other, each with a higher fence',
      async (scene) => {
        const box = await scene.open()
        const fences: number[] = []
        let running = 0
        let most = 0
        await scene.work(box, {
          concurrency: 4,
          handlers: {
            async pull(job) {
              most = Math.max(most, ++running)
              fences.push(job.fence!)
              await new Promise((resolve) => setTimeout(resolve, 20))
              running--
              if (job.payload === 'fails' && job.attempt === 1) throw new Error('the registry is away')
            },
            other: () => undefined,
          },
        })
        const lock = { operation: 'pull', resource: 'nginx:1.29' }
        const ids: string[] = []
        for (const payload of ['ok', 'fails', 'ok']) {
          const { id } = await box.jobs.add('pull', payload, { lock, backoff: { baseMs: 10, jitter: 0 } })
          ids.push(id)
        }
        const free = await box.jobs.add('other')
        await jobIn(box, free.id, 'completed')
        // A lock request that failed delays its job for five seconds, which a slow moment may cause.
        for (const id of ids) await jobIn(box, id, 'completed', 25_000)
        assert.equal(most, 1)
        assert.equal(fences.length, 4)
        assert.deepEqual(
          fences,
          fences.toSorted((a, b) => a - b),
        )
        assert.equal(new Set(fences).size, 4)
        const shown = await box.jobs.find(ids[1]!)
        assert.deepEqual([shown?.lock, shown?.attempt], [lock, 2])
      },
      30_000,
    )

    stage.story(
      'a job with a lock runs again soon and with a higher fence, however it was returned',
      async (scene) => {
        const box = await scene.open()
        const other = await scene.openAnother(box)
        // These resolvers unblock jobs, and run none of them.
        for (const each of [box, other])
          await scene.work(each, { queues: ['elsewhere'], handlers: { pull: () => undefined } })
        const { id } = await box.jobs.add('pull', null, {
          lock: { operation: 'pull', resource: 'nginx:1.30' },
        })
        const fences: number[] = []
        // Undefined: the worker vanishes, and its lease ends; its attempts count from the operator's earlier retry.
        const ways = [{ handBack: true }, { retryInMs: 0 }, { snoozeMs: 10 }, { dead: true }, undefined]
        for (const how of ways) {
          const options = how === undefined ? { leaseMs: 500 } : {}
          const held = await claimOne(fences.length % 2 === 0 ? box : other, options)
          fences.push(held.fence!)
          if (how !== undefined) await (fences.length % 3 === 0 ? box : other).jobs.nack(held, how)
          if (how?.dead) await box.jobs.retry(id)
        }
        fences.push((await claimOne(box)).fence!)
        assert.deepEqual(
          fences,
          [...new Set(fences)].sort((a, b) => a - b),
        )
      },
    )

    stage.story('jobs with locks keep their leases when one claim took several of them', async (scene) => {
      const box = await scene.open()
      // This resolver unblocks the jobs, and its worker runs none of them.
      await scene.work(box, { queues: ['elsewhere'], handlers: { pull: () => undefined } })
      const images = ['nginx:1.31', 'nginx:1.32', 'nginx:1.33']
      await box.jobs.addMany(
        images.map((resource) => ({ kind: 'pull', lock: { operation: 'pull', resource } })),
      )
      const ready = async () => (await box.jobs.list({ state: 'ready' })).items.length
      await until('all have their locks', async () => (await ready()) === images.length)
      const claimed = await box.jobs.claim({ limit: images.length })
      assert.equal(claimed.length, images.length)
      for (const job of claimed) await box.jobs.renew(job)
    })

    stage.story('a job whose lock another holder has waits without occupying a worker', async (scene) => {
      const box = await scene.open()
      await scene.work(box, {
        concurrency: 1,
        handlers: { pull: (job) => job.fence, other: () => undefined },
      })
      const line = { operation: 'pull', resource: 'redis:8' }
      const key = { ...line, node: 'holder' }
      const held = await box.locks.acquire(key)
      assert.equal(held.status, 'granted')
      const { id } = await box.jobs.add('pull', null, { lock: line })
      await until('it stands in line', async () => (await box.locks.inspect(line)).waiterCount === 1)
      const other = await box.jobs.add('other')
      await jobIn(box, other.id, 'completed')
      assert.equal((await box.jobs.find(id))?.state, 'waiting')
      assert.ok(held.status === 'granted')
      await box.locks.release({ ...key, token: held.token, outcome: 'success' })
      const job = await jobIn(box, id, 'completed')
      assert.ok((job.result as number) > held.token)
      await until('the lock is given back', async () => (await box.locks.inspect(line)).holder === null)
    })

    stage.story(
      'at most as many jobs of a key run as its queue allows, and no key blocks another',
      async (scene) => {
        const box = await scene.open()
        const running = new Map<string, number>()
        const most = new Map<string, number>()
        const order: number[] = []
        await box.jobs.setLimits('mail', { perKey: { concurrency: 2 } })
        const jobs = Array.from({ length: 30 }, (_, at) => ({
          ...{ kind: 'send', queue: 'mail', payload: at, limitKey: at < 20 ? 'loud' : `quiet-${at % 2}` },
        }))
        const added = await box.jobs.addMany(jobs)
        await scene.work(box, {
          queues: ['mail'],
          concurrency: 20,
          handlers: {
            async send(job) {
              const key = job.limitKey!
              running.set(key, (running.get(key) ?? 0) + 1)
              most.set(key, Math.max(most.get(key) ?? 0, running.get(key)!))
              order.push(job.payload)
              await new Promise((resolve) => setTimeout(resolve, 5))
              running.set(key, running.get(key)! - 1)
            },
          },
        })
        for (const { id } of added) await jobIn(box, id, 'completed')
        assert.deepEqual(
          [...most].sort(([a], [b]) => (a < b ? -1 : 1)),
          [
            ['loud', 2],
            ['quiet-0', 2],
            ['quiet-1', 2],
          ],
        )
        // The first claims contain jobs of the quiet keys, although twenty jobs of the loud key are in front.
        assert.ok(order.slice(0, 6).some((at) => at >= 20))
        const loud = order.filter((at) => at < 20)
        assert.equal(loud.length, 20)
        const [line] = (await box.jobs.stats()).filter(({ queue }) => queue === 'mail')
        assert.deepEqual(line?.limits, {
          concurrency: null,
          rate: null,
          perKey: { concurrency: 2, rate: null },
        })
      },
    )

    stage.story('jobs start no faster than the rate', async (scene) => {
      const box = await scene.open()
      await box.jobs.setLimits('slow', { rate: { count: 3, perMs: 400 } })
      const added = await box.jobs.addMany(Array.from({ length: 8 }, () => ({ kind: 'send', queue: 'slow' })))
      // Not counted from the first end, whose event may come late.
      const begunAt = Date.now()
      await scene.work(box, { queues: ['slow'], concurrency: 8, handlers: { send: () => undefined } })
      const ends: number[] = []
      for (const { id } of added) ends.push((await jobIn(box, id, 'completed')).finishedAt!)
      // Three at once, three a period later, the rest two periods later; a claim also waits for its worker.
      assert.ok(Math.max(...ends) - begunAt >= 600, `${begunAt}: ${ends}`)
    })
  })
}

/** The only job, as soon as it may be claimed. */
async function claimOne(box: Box, options: ClaimOptions = {}): Promise<ClaimedJob> {
  const claimed: ClaimedJob[] = []
  await until('it is claimed', async () => {
    claimed.push(...(await box.jobs.claim(options)))
    return claimed.length > 0
  })
  return claimed[0]!
}
