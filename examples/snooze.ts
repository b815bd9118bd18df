/**
 * A job that finds it is too early puts itself off. Nothing has failed, so no attempt is burnt and no back-off grows:
 * it comes back after the time it asked for, as often as it likes. `job.snoozeCount` says how often that was.
 *
 * Run it: npx node --conditions=source examples/snooze.ts
 */
import assert from 'node:assert/strict'
import { open } from 'signalbox'

await using box = await open('memory:')

/** The other side needs a while. */
let asked = 0
const isReportReady = () => ++asked > 3

const { promise: done, resolve } = Promise.withResolvers<void>()
const worker = box.jobs.worker({
  pollMs: 50,
  handlers: {
    async fetchReport(job) {
      if (!isReportReady()) {
        if (job.snoozeCount >= 100) throw new Error('The report has not come all day.')
        console.log(`not yet, put off for the ${job.snoozeCount + 1}. time`)
        return job.snooze('100ms') // and that is the end of this call: return
      }
      console.log(`there it is, on attempt ${job.attempt}`)
      resolve()
      return { pages: 12 }
    },
  },
})
worker.on('snoozed', ({ job, delayMs }) => console.log(`${job.kind} comes back in ${delayMs} ms`))
await worker.start()

const { id } = await box.jobs.add('fetchReport', null, { maxAttempts: 1 })
await done
await worker.stop()

const job = await box.jobs.find(id)
assert.deepEqual([job?.state, job?.attempt, job?.snoozeCount], ['completed', 1, 3])
