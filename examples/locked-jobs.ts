/**
 * Jobs that wait for a lock. A job with `lock` waits in that lock's wait queue, in order, behind a manual holder, without
 * occupying a worker. When it is its turn, it runs with the fence token, and releases the lock when it ends.
 *
 * Run it: npx node --conditions=source examples/locked-jobs.ts
 */
import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Box, open } from 'signalbox'

await using box = await open('memory:')

/** What the lock guards. It takes no write with an older fence than it has seen, so a holder that lost the lock cannot harm it. */
const registry = {
  fence: 0,
  images: [] as string[],
  push(image: string, fence: number) {
    if (fence < this.fence) throw new Error(`fence ${fence} is older than ${this.fence}`)
    this.fence = fence
    this.images.push(image)
  },
}

let atOnce = 0
let most = 0
const worker = box.jobs.worker({
  concurrency: 2,
  handlers: {
    async push(job, { signal }) {
      most = Math.max(most, ++atOnce)
      console.log(`push ${job.payload.image} with fence ${job.fence}`)
      await sleep(20, undefined, { signal }) // aborts when the lock is lost
      registry.push(job.payload.image, job.fence!)
      atOnce--
    },
    mail: () => console.log('mail, while three jobs wait for the lock'),
  },
})
await worker.start()

const lock = { operation: 'push', resource: 'registry' }
// Another holder has the lock: a person at a console, another program.
const held = await box.locks.hold(lock.operation, lock.resource, { node: 'a person' })
console.log(`a person holds the lock with fence ${held.token}`)

const added = []
for (const image of ['app:1', 'app:2', 'app:3']) added.push(await box.jobs.add('push', { image }, { lock }))
while ((await box.locks.inspect(lock)).waiterCount < 3) await sleep(10)

// They wait, and the worker with its two places is free for others.
const mail = await box.jobs.add('mail')
await ended(box, mail.id)
for (const { id } of added) assert.equal((await box.jobs.find(id))?.state, 'waiting')

await held.release()
for (const { id } of added) {
  const job = await ended(box, id)
  assert.deepEqual([job.state, job.lock], ['completed', lock])
}

assert.equal(most, 1) // two places, and never two at once
assert.deepEqual(registry.images, ['app:1', 'app:2', 'app:3']) // in the order they came
assert.ok(registry.fence > held.token)

async function ended({ jobs }: Box, id: string) {
  for (;;) {
    const job = await jobs.find(id)
    if (job !== undefined && job.finishedAt !== null) return job
    await sleep(10)
  }
}
