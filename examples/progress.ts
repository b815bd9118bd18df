/**
 * How far a job is, and what happened on the way: the handler says so in passing, without waiting and without a word
 * that could fail, and any process that reads the job sees it.
 *
 * Run it: npx node --conditions=source examples/progress.ts
 */
import assert from 'node:assert/strict'
import { open } from 'signalbox'

await using box = await open('memory:')

const worker = box.jobs.worker({
  handlers: {
    async import(job, { signal }) {
      const rows = 400
      for (let row = 1; row <= rows; row++) {
        signal.throwIfAborted()
        if (row % 100 === 0) job.log(`${row} rows are in`)
        // As often as you like: updates within a quarter of a second are written once.
        job.progress({ percent: (row / rows) * 100, note: `row ${row} of ${rows}`, data: { row } })
        await new Promise((resolve) => setTimeout(resolve, 2))
      }
      job.log('one row had no date', { level: 'warn' })
    },
  },
})
await worker.start()

const { id } = await box.jobs.add('import', { file: 'orders.csv' })
for (;;) {
  const job = await box.jobs.find(id)
  if (job?.progress) console.log(`${job.state}: ${job.progress.percent} % (${job.progress.note})`)
  if (job?.state === 'completed') break
  await new Promise((resolve) => setTimeout(resolve, 200))
}

const { items } = await box.jobs.logs(id)
for (const { attempt, number, level, text } of items) console.log(`${attempt}.${number} ${level}: ${text}`)
assert.equal(items.length, 5)
assert.equal((await box.jobs.find(id))?.progress?.percent, 100)
