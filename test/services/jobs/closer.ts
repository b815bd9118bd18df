/** Opens a box, runs a job, closes the box, and prints that; the parent process checks whether this process then ends. */
import { open } from 'signalbox'

const url = process.env.URL_OF_STORE!
const isRemote = url.startsWith('http:')
const box = await open(url, {
  namespace: process.env.NAMESPACE_OF_STORE,
  ...(isRemote ? {} : { migrate: true, retentionMs: '1d' }),
})
const sent = { sent: true }
const worker = box.jobs.worker({
  handlers: { mail: (job) => (isRemote ? sent : job.transaction(() => sent)) },
})
await worker.start()
const completed = worker.once('completed')
const { id } = await box.jobs.add('mail', {}, { timeoutMs: 60_000 })
await completed
const job = await box.jobs.find(id)
await box.close()
console.log(`closed ${JSON.stringify(job?.result)}`)
