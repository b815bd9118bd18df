/** Limits and jobs with keys for the contracts of limits. */
import assert from 'node:assert/strict'
import type { ClaimedRecord, NewJob, QueueLimits } from '../../../src/jobs/index.ts'
import type { Backend } from '../../../src/storage/backend.ts'
import { addOne, aJob, claim, settleOne } from '../jobs/making.ts'

/** Only the given limits. */
export function limitsOf(limits: Partial<QueueLimits>): QueueLimits {
  return { concurrency: null, rate: null, perKey: null, ...limits }
}

/** A concurrency limit for each key, and nothing else. */
export function perKey(concurrency: number): QueueLimits {
  return limitsOf({ perKey: { concurrency, rate: null } })
}

/** A job that is counted by this key. */
export function aJobOf(limitKey: string, job: Partial<NewJob> = {}): NewJob {
  return aJob({ meta: JSON.stringify({ limitKey }), ...job })
}

/** Adds jobs in this order, each due a moment after the one before. Returns their ids. */
export async function addInOrder({ jobs }: Backend, newJobs: readonly NewJob[]): Promise<readonly string[]> {
  const dated = newJobs.map((job, at) => ({ ...job, due: { runAt: 1_000 + at } }))
  for (let at = 0; at < dated.length; at += 1_000) await jobs.add(dated.slice(at, at + 1_000))
  return dated.map(({ id }) => id)
}

/** This many ready jobs, in order. */
export async function addMany(
  backend: Backend,
  count: number,
  job: Partial<NewJob> = {},
): Promise<readonly string[]> {
  return addInOrder(
    backend,
    Array.from({ length: count }, () => aJob(job)),
  )
}

/** A queue with one slot, one running job and one waiting job. */
export async function fullQueue(
  backend: Backend,
  request: { readonly leaseMs?: number } = {},
): Promise<{ readonly running: ClaimedRecord; readonly waiting: string }> {
  await backend.jobs.setLimits('mail', limitsOf({ concurrency: 1 }))
  const first = await addOne(backend, { due: { runAt: 1_000 } })
  const waiting = await addOne(backend, { due: { runAt: 2_000 } })
  const [running, ...more] = await claim(backend, request)
  assert.equal(running?.id, first)
  assert.equal(more.length, 0)
  return { running, waiting }
}

export async function settleEach(backend: Backend, claimed: readonly ClaimedRecord[]): Promise<void> {
  for (const job of claimed) assert.equal(await settleOne(backend, job), true)
}
