/** Waiting for a job to end, in process and over the wire: each wait is answered once, whatever happens meanwhile. */
import assert from 'node:assert/strict'
import { type Box, open, type SignalboxError } from 'signalbox'
import { createClient } from 'signalbox/client'
import type { ClaimedJob } from 'signalbox/jobs'
import { createServer } from 'signalbox/server'
import { describe, test } from 'vitest'
import { within } from '../../support/deadline.ts'
import { stages } from './stage.ts'

const minute = 60_000
const everyStage = stages()

for (const stage of everyStage) {
  describe(stage.title, () => {
    stage.story('a wait returns the ended job with its result or its error', async (scene) => {
      const box = await scene.open()
      const [good, bad, unwanted] = await box.jobs.addMany([
        { kind: 'good' },
        { kind: 'bad', maxAttempts: 1 },
        { kind: 'unwanted', delayMs: '1h' },
      ])
      const waits = [good, bad, unwanted].map((added) => box.jobs.wait(added!.id, { timeoutMs: minute }))
      await scene.work(box, {
        handlers: {
          good: () => ({ pages: 7 }),
          bad: () => Promise.reject(new Error('no paper')),
          unwanted: () => undefined,
        },
      })
      await box.jobs.cancel(unwanted!.id)
      const [printed, failed, cancelled] = await Promise.all(waits)
      assert.equal(printed!.status, 'ended')
      assert.deepEqual([printed!.job.state, printed!.job.result], ['completed', { pages: 7 }])
      assert.deepEqual([failed!.job.state, failed!.job.error?.message], ['dead', 'no paper'])
      assert.deepEqual([cancelled!.status, cancelled!.job.state], ['ended', 'cancelled'])
      // It ended before.
      assert.equal((await box.jobs.wait(good!.id)).status, 'ended')
    })

    stage.story('a wait learns of an end in another process', async (scene) => {
      const box = await scene.open()
      const other = await scene.openAnother(box)
      const { id } = await box.jobs.add('mail', { to: 'Ada' })
      const wait = box.jobs.wait(id)
      await scene.work(other, { handlers: { mail: (job) => job.payload.to } })
      assert.equal((await wait).job.result, 'Ada')
    })

    stage.story('a wait that times out returns the present state of the job', async (scene) => {
      const box = await scene.open()
      const { id } = await box.jobs.add('mail')
      for (const timeoutMs of [0, '50ms'] as const) {
        const { status, job } = await box.jobs.wait(id, { timeoutMs })
        assert.deepEqual([status, job.id, job.state], ['timeout', id, 'ready'])
      }
    })

    stage.story('a wait for a missing or removed job is refused', async (scene) => {
      const box = await scene.open()
      await assert.rejects(box.jobs.wait('01k9z3v8qe0m4t9wq3rb5c7xkd'), { code: 'not_found' })
      const { id } = await box.jobs.add('mail')
      const wait = box.jobs.wait(id)
      await box.jobs.remove([id])
      await assert.rejects(wait, { code: 'not_found' })
      await assert.rejects(box.jobs.wait(id, { timeoutMs: -1 }), { code: 'invalid_argument' })
      await assert.rejects(box.jobs.wait(id, { timeout: 1 } as never), { code: 'invalid_argument' })
    })

    stage.story('a wait ends with its signal, and with its box', async (scene) => {
      const box = await scene.open()
      const { id } = await box.jobs.add('mail')
      const stop = new AbortController()
      const stopped = box.jobs.wait(id, { signal: stop.signal })
      stop.abort(new Error('enough'))
      await assert.rejects(stopped, { message: 'enough' })
      const own = await scene.open()
      const closing = assert.rejects(own.jobs.wait(id), { code: 'closed' })
      await own.close()
      await closing
      await assert.rejects(own.jobs.wait(id), { code: 'closed' })
    })

    stage.story(
      'a thousand waits for a thousand jobs are each answered once',
      async (scene) => {
        const box = await scene.open()
        const added = await box.jobs.addMany(
          Array.from({ length: 1_000 }, (_, nth) => ({ kind: 'n', payload: nth })),
        )
        const answers = added.map(({ id }) => box.jobs.wait(id, { timeoutMs: 2 * minute }))
        await scene.work(await scene.openAnother(box), {
          concurrency: 50,
          handlers: { n: (job) => job.payload * 2 },
        })
        const results = await Promise.all(answers)
        assert.deepEqual(
          results.map(({ job }) => job.result),
          added.map((_, nth) => nth * 2),
        )
      },
      90_000,
    )
  })
}

for (const stage of everyStage.filter(({ isRemote }) => !isRemote)) {
  describe(`${stage.title} behind a server`, () => {
    test('a thousand waits survive a restart of the server, and the client waits as a box does', async () => {
      const store = await open(await stage.storeUrl(), { namespace: 'restarts', migrate: true })
      let server = createServer({ box: store, port: 0 })
      const { url } = await server.listen()
      const port = Number(new URL(url).port)
      const box = (await open(url, { namespace: 'restarts' })) as unknown as Box
      using client = createClient(url, { namespace: 'restarts' })
      try {
        const added = await store.jobs.addMany(
          Array.from({ length: 1_000 }, (_, nth) => ({ kind: 'n', payload: nth })),
        )
        let answerCount = 0
        const answers = added.map(async ({ id }) => {
          const answer = await box.jobs.wait(id, { timeoutMs: 2 * minute })
          answerCount++
          return answer
        })
        const [last] = added.slice(-1)
        const alone = client.jobs.wait(last!.id, { timeoutMs: 2 * minute })
        const finish = (jobs: readonly ClaimedJob[]) =>
          Promise.all(jobs.map((job) => store.jobs.ack(job, { result: job.payload })))
        const claimed = [
          ...(await store.jobs.claim({ limit: 500, leaseMs: '5m' })),
          ...(await store.jobs.claim({ limit: 500, leaseMs: '5m' })),
        ]
        // Half of them end before the restart, the others while the server is away and after it.
        await finish(claimed.slice(0, 500))
        await server.close({ graceMs: 100 })
        await finish(claimed.slice(500, 750))
        server = createServer({ box: store, port })
        await server.listen()
        await finish(claimed.slice(750))
        const results = await within(100_000, 'all answers', Promise.all(answers))
        assert.deepEqual(
          results.map(({ status, job }) => [status, job.result]),
          added.map((_, nth) => ['ended', nth]),
        )
        assert.equal(answerCount, 1_000)
        const { status, job } = await within(30_000, 'the answer to the client', alone)
        assert.deepEqual([status, job.result], ['ended', 999])
        await assert.rejects(client.jobs.wait('nowhere'), ({ code }: SignalboxError) => code === 'not_found')
      } finally {
        await box.close()
        await server.close({ graceMs: 100 })
        await store.close()
      }
    }, 150_000)
  })
}
