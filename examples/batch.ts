/**
 * A handler that takes many jobs in one call, because the other side takes many in one request. Each job is still one:
 * with its own lease, its own retries and its own end. Those that failed come back alone.
 *
 * Run it: npx node --conditions=source examples/batch.ts
 */
import assert from 'node:assert/strict'
import { open } from 'signalbox'

await using box = await open('memory:')

/** A mail service that takes up to 50 at once and says for each how it went. */
async function sendMails(to: readonly string[]): Promise<readonly { ok: boolean; to: string }[]> {
  return to.map((address) => ({ ok: address.includes('@'), to: address }))
}

const sizes: number[] = []
const worker = box.jobs.worker({
  concurrency: 2, // two batches at once
  handlers: {
    mail: {
      batch: { size: 50, waitMs: 100 }, // wait a little for more: a request costs the same for one and for fifty
      async runBatch(jobs) {
        sizes.push(jobs.length)
        const answers = await sendMails(jobs.map((job) => job.payload.to))
        // One outcome for each job, in order: an Error fails that job, anything else is its result.
        return answers.map(({ ok, to }) => (ok ? { sentTo: to } : new Error(`no such address: ${to}`)))
      },
    },
  },
})

await box.jobs.addMany(
  Array.from({ length: 120 }, (_, index) => ({
    kind: 'mail',
    payload: { to: index === 7 ? 'unknown' : `reader${index}@example.com` },
    maxAttempts: 1,
  })),
)
const { promise: done, resolve } = Promise.withResolvers<void>()
let ended = 0
const count = () => {
  if (++ended === 120) resolve()
}
worker.on('completed', count)
worker.on('failed', ({ job, error }) => {
  console.log(`${job.id} failed: ${(error as Error).message}`)
  count()
})
await worker.start()
await done
await worker.stop()
console.log(`120 jobs in ${sizes.length} calls: ${sizes.join(', ')}`)
assert.deepEqual([worker.counts.completed, worker.counts.failed], [119, 1])
