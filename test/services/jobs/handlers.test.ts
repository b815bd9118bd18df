/** What handlers can do besides finishing: report progress, snooze their job, handle many jobs at once. */
import assert from 'node:assert/strict'
import { describe } from 'vitest'
import { jobIn, stages, until } from './stage.ts'

for (const stage of stages()) {
  describe(stage.title, { concurrent: true }, () => {
    stage.story('the store keeps log lines, snoozes and batch results of handlers', async (scene) => {
      const box = await scene.open()
      const sizes: number[] = []
      const worker = await scene.work(box, {
        pollMs: 50,
        handlers: {
          async report(job) {
            job.progress({
              percent: job.snoozeCount * 50,
              note: 'Grüße 你好',
              data: { round: job.snoozeCount },
            })
            job.log(`round ${job.snoozeCount}`, { level: 'warn' })
            if (job.snoozeCount < 2) await job.snooze(10)
          },
          send: {
            batch: { size: 20 },
            runBatch(jobs) {
              sizes.push(jobs.length)
              return jobs.map((job) => (job.payload === 7 ? new Error('not seven') : job.payload))
            },
          },
        },
      })
      const { id } = await box.jobs.add('report', null, { maxAttempts: 1 })
      await jobIn(box, id, 'completed')
      await until(
        'its last words are there',
        async () => (await box.jobs.find(id))?.progress?.percent === 100,
      )
      const job = await box.jobs.find(id)
      assert.deepEqual([job?.attempt, job?.snoozeCount], [1, 2])
      assert.deepEqual(
        [job?.progress?.note, job?.progress?.data, job?.progress?.attempt],
        ['Grüße 你好', { round: 2 }, 1],
      )
      const { items } = await box.jobs.logs(id)
      assert.deepEqual(
        items.map(({ attempt, number, level, text }) => [attempt, number, level, text]),
        [0, 1, 2].map((round) => [1, round + 1, 'warn', `round ${round}`]),
      )

      const added = await box.jobs.addMany(
        Array.from({ length: 50 }, (_, payload) => ({ kind: 'send', payload, maxAttempts: 1 })),
      )
      await until('all are sent', () => worker.counts.completed + worker.counts.failed === 51)
      const states = await Promise.all(added.map(async (one) => (await box.jobs.find(one.id))?.state))
      assert.deepEqual(
        states,
        states.map((_, index) => (index === 7 ? 'dead' : 'completed')),
      )
      assert.ok(Math.max(...sizes) > 1 && Math.max(...sizes) <= 20, `sizes ${sizes}`)
      assert.deepEqual([worker.counts.snoozed, worker.counts.lost], [2, 0])
    })
  })
}
