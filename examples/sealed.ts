/**
 * Payloads that the database cannot read. A box with a sealer encrypts what its jobs carry and what they return; in the
 * table, in backups and on a server there is only `{"$sealed":"…"}`. Keys are changed while jobs wait. What is copied
 * to another job does not open. Who has no key sees that there is something, and burns no attempt on it.
 *
 * Run it: npx node --conditions=source examples/sealed.ts
 */
import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createAesSealer, isSignalboxError, open } from 'signalbox'

const folder = await mkdtemp(join(tmpdir(), 'signalbox-sealed-'))
const url = `sqlite:${join(folder, 'jobs.db')}`

// In real life: 32 random bytes from wherever your secrets live, the same for all who add and do these jobs.
const january = randomBytes(32)
const february = randomBytes(32)

// 1. A program adds a job. Its payload is encrypted in this process.
{
  const sealer = createAesSealer({ keys: { january }, current: 'january' })
  await using box = await open(url, { jobs: { sealer } })
  await box.jobs.add('charge', { card: '4111 1111 1111 1111', amount: 1200 }, { tags: ['order-7'] })
}

// 2. A program with only the database sees the kind, the tags and the state, but not the payload.
{
  await using box = await open(url)
  const [job] = (await box.jobs.list()).items
  console.log('without the key:', job!.kind, job!.tags, job!.payload)
  assert.doesNotMatch(JSON.stringify(await box.backend.jobs.find(job!.id)), /4111/)

  // A worker without the key cannot run it: the job waits for one with the key and keeps all its attempts.
  await assert.rejects(box.jobs.claim(), (error) => isSignalboxError(error, 'payload_sealed'))
  const after = await box.jobs.find(job!.id)
  console.log(
    `refused, and it is ${after!.state} with ${after!.attempt} of ${after!.maxAttempts} attempts used`,
  )
  await box.jobs.retry(job!.id) // due now, and not in half a minute
}

// 3. A month later the key has changed. The old one still opens, the new one seals.
{
  const sealer = createAesSealer({ keys: { january, february }, current: 'february' })
  await using box = await open(url, { jobs: { sealer } })
  const worker = box.jobs.worker({
    handlers: {
      charge: async ({ payload }) => {
        console.log(`charging ${payload.amount} to a card that ends in ${payload.card.slice(-4)}`)
        return { receipt: `paid by ${payload.card}` } // results are sealed too
      },
    },
  })
  const completed = worker.once('completed')
  await worker.start()
  const { job } = await completed
  assert.match(JSON.stringify((await box.jobs.find(job.id))!.result), /4111/)
  assert.doesNotMatch(JSON.stringify(await box.backend.jobs.find(job.id)), /4111/)

  // 4. What is sealed is bound to its job. Copied to another one, it does not open, and that job is dead.
  const kept = (await box.backend.jobs.find(job.id))!
  const { queue, kind, payload, priority, maxAttempts, meta } = kept
  const plain = { uniqueKey: null, due: { delayMs: 0 }, backoff: null, timeoutMs: null }
  const failed = worker.once('failed')
  await box.backend.jobs.add([{ ...plain, id: 'forged', queue, kind, payload, priority, maxAttempts, meta }])
  box.jobs.wake(queue)
  await failed
  const forged = await box.jobs.find('forged')
  console.log(`the forged one is ${forged!.state}: ${forged!.error!.code}`)
  assert.equal(forged!.error!.code, 'seal_broken')
}

await rm(folder, { recursive: true })
