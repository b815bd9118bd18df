/** The library's own worker on a server's store, with a handler that writes down every job it runs. */
import { appendFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { open } from '../../../src/index.ts'

const box = await open(process.env.SIGNALBOX_URL!)
const worker = box.jobs.worker({
  handlers: {
    languages: async (job) => {
      appendFileSync(process.env.RUNS!, `typescript ${job.id}\n`)
      await sleep((job.payload as { ms: number }).ms)
      return 'typescript'
    },
  },
  concurrency: 1,
  prefetch: 0,
})
worker.on('warning', ({ message }) => console.error(message))
await worker.start()
console.log(`works for ${process.env.SIGNALBOX_URL}`)
process.once('SIGTERM', () => void box.close().then(() => process.exit(0)))
