/**
 * A process with a worker for jobs that wait for a free slot, for other jobs or for a lock. Each attempt writes a row
 * when it starts, and one when it ends, in the transaction that ends the job, by the database's clock.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { open } from '../../../src/index.ts'
import type { HandlerJob } from '../../../src/jobs/index.ts'
import { keepCompiled } from '../../support/compiled.ts'
import { type BlockedPayload, type BlockedProcessOptions, createAttemptLog, nowSql } from './attempts.ts'

const { url, namespace, queues, leaseMs }: BlockedProcessOptions = JSON.parse(process.argv[2]!)
const box = await open(url as 'sqlite:', { namespace })
const log = await createAttemptLog(url)

async function run(job: HandlerJob<BlockedPayload>): Promise<void> {
  try {
    await log.begun(job)
    await sleep(job.payload.ms, undefined, { signal: job.signal })
    await job.transaction(async (tx) => {
      const sql = `INSERT INTO attempt_end (job, claimed_at, how, at) SELECT '${job.id}', ${job.startedAt}, 'completed', ${nowSql(url)}`
      await tx.query(sql)
    })
  } catch (error) {
    // It ends now, whatever its lease says: handed back, or failed.
    await log.left(job)
    throw error
  }
}

const worker = box.jobs.worker({
  queues,
  concurrency: 6,
  prefetch: 4,
  leaseMs,
  pollMs: 100,
  handlers: { run },
})
process.once('SIGTERM', async () => {
  await box.close()
  await log[Symbol.asyncDispose]()
  process.exit(0)
})
await worker.start()
keepCompiled()
console.log('ready')
