import type { Added, NewJob } from '../../../jobs/index.ts'
import { limitKeyOf } from '../../sql/limit-plan.ts'
import type { Moment } from '../connection/connection.ts'
import { takeBackIfLapsed } from './reclaim.ts'

/** Writes new jobs in the open transaction. If a live job has the same unique key, the answer is that job. */
export function insertJobs(moment: Moment, jobs: readonly NewJob[]): readonly Added[] {
  return jobs.map((job) => {
    // Most unique keys are free. Search for the job with the key only after the index reports a conflict.
    if (insertJob(moment, job)) return { id: job.id, duplicate: false }
    const holder = findHolder(moment, job.queue, job.uniqueKey!)
    if (holder !== undefined) return { id: holder, duplicate: true }
    insertJob(moment, job)
    return { id: job.id, duplicate: false }
  })
}

/** Finds the live job with this key. If its last lease expired, the job is dead and is taken back first. */
function findHolder(moment: Moment, queue: string, uniqueKey: string): string | undefined {
  const { connection, namespace } = moment
  const sql = 'SELECT id FROM job_queue WHERE namespace = ?1 AND queue = ?2 AND unique_key = ?3'
  const holder = connection.get<{ id: string }>(sql, namespace, queue, uniqueKey)
  if (!holder) return undefined
  takeBackIfLapsed(moment, holder.id)
  return connection.get<{ id: string }>(sql, namespace, queue, uniqueKey)?.id
}

/** False: another job has the unique key. */
function insertJob({ connection, namespace, now }: Moment, job: NewJob): boolean {
  const runAt = 'runAt' in job.due ? job.due.runAt : now + job.due.delayMs
  const inserted = connection.run(
    `INSERT INTO job_queue (
       namespace, id, queue, kind, payload, priority, unique_key, state, max_attempts, run_at, created_at,
       updated_at, backoff, timeout_ms, meta, limit_key)
     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?11, ?12, ?13, ?14, ?15)
     ON CONFLICT (namespace, queue, unique_key) WHERE unique_key IS NOT NULL DO NOTHING`,
    namespace,
    job.id,
    job.queue,
    job.kind,
    job.payload,
    job.priority,
    job.uniqueKey,
    job.dependsOn ? 'waiting' : runAt <= now ? 'ready' : 'scheduled',
    job.maxAttempts,
    runAt,
    now,
    job.backoff,
    job.timeoutMs,
    job.meta,
    limitKeyOf(job.meta),
  )
  return inserted > 0
}
