/** Opens a box, runs a job, closes the box, and says so; whether the process then ends is for whoever started it to see. */
import { open } from 'signalbox'

const box = await open(process.env.URL_OF_STORE!, {
  namespace: process.env.NAMESPACE_OF_STORE,
  migrate: true,
  retentionMs: '1d',
})
const worker = box.jobs.worker({ handlers: { mail: (job) => job.transaction(() => ({ sent: true })) } })
await worker.start()
const completed = worker.events.once('completed')
const { id } = await box.jobs.add('mail', {}, { timeoutMs: 60_000 })
await completed
const job = await box.jobs.find(id)
await box.close()
console.log(`closed ${JSON.stringify(job?.result)}`)
