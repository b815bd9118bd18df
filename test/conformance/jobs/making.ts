/** Jobs, claims and verdicts for the contracts: fields that the test gives, and sensible defaults. */
import assert from 'node:assert/strict'
import { createId } from '../../../src/core/ids.ts'
import type {
  ClaimedRecord,
  ClaimRequest,
  JobRecord,
  LeaseRef,
  NewJob,
  Verdict,
} from '../../../src/jobs/index.ts'
import type { Backend } from '../../../src/storage/backend.ts'
import { createPause } from '../../support/pause.ts'

/** Longer than any test. */
export const longMs = 600_000
/** A lease that expires during a test; used only in tests of expiry. */
export const shortMs = 50

export function aJob(job: Partial<NewJob> = {}): NewJob {
  return {
    id: createId(),
    queue: 'mail',
    kind: 'welcome',
    payload: '{"to":"ada"}',
    priority: 0,
    uniqueKey: null,
    due: { delayMs: 0 },
    maxAttempts: 5,
    backoff: null,
    timeoutMs: null,
    meta: null,
    ...job,
  }
}

/** Adds one job; answers its id. */
export async function addOne({ jobs }: Backend, job: Partial<NewJob> = {}): Promise<string> {
  const [added] = await jobs.add([aJob(job)])
  assert.equal(added?.duplicate, false)
  return added.id
}

export async function claim(
  { jobs }: Backend,
  request: Partial<ClaimRequest> = {},
): Promise<readonly ClaimedRecord[]> {
  return jobs.claim({ queues: ['mail'], kinds: null, workerId: 'w1', limit: 10, leaseMs: longMs, ...request })
}

/** Claims exactly one job. */
export async function claimOne(
  backend: Backend,
  request: Partial<ClaimRequest> = {},
): Promise<ClaimedRecord> {
  const [claimed, ...more] = await claim(backend, { limit: 1, ...request })
  assert.ok(claimed, 'there is a job to claim')
  assert.equal(more.length, 0)
  return claimed
}

/** Adds one job and claims it. */
export async function runningJob(
  backend: Backend,
  job: Partial<NewJob> = {},
  request: Partial<ClaimRequest> = {},
): Promise<ClaimedRecord> {
  const id = await addOne(backend, job)
  const claimed = await claimOne(backend, { queues: [job.queue ?? 'mail'], ...request })
  assert.equal(claimed.id, id)
  return claimed
}

export function leaseOf({ id, token }: ClaimedRecord): LeaseRef {
  return { jobId: id, token }
}

/** A verdict; completed by default. */
export function verdictOf(claimed: ClaimedRecord, verdict: Partial<Verdict> = {}): Verdict {
  return {
    ...leaseOf(claimed),
    state: 'completed',
    attempt: claimed.attempt,
    handBackCount: claimed.handBackCount,
    snoozeCount: claimed.snoozeCount,
    delayMs: 0,
    ranMs: null,
    result: null,
    error: null,
    ...verdict,
  }
}

export async function settleOne(
  { jobs }: Backend,
  claimed: ClaimedRecord,
  verdict: Partial<Verdict> = {},
): Promise<boolean> {
  const [took, ...more] = await jobs.settle([verdictOf(claimed, verdict)])
  assert.equal(more.length, 0)
  return took!
}

/** A job that ended in this state. */
export async function endedJob(
  backend: Backend,
  state: 'completed' | 'dead' | 'cancelled',
  job: Partial<NewJob> = {},
): Promise<string> {
  const claimed = await runningJob(backend, job)
  assert.equal(await settleOne(backend, claimed, { state }), true)
  return claimed.id
}

export async function find({ jobs }: Backend, id: string): Promise<JobRecord> {
  const record = await jobs.find(id)
  assert.ok(record, `job ${id} is there`)
  return record
}

/** Waits for a condition. Fails with its name when it never holds. */
export async function until(what: string, isSo: () => Promise<boolean>, ms = 5_000): Promise<void> {
  const deadline = Date.now() + ms
  const pause = createPause()
  while (!(await isSo())) {
    assert.ok(Date.now() < deadline, `${what} within ${ms} ms`)
    await pause()
  }
}

/** Waits until the store's clock has passed the lease's end. */
export async function lapse(backend: Backend, ...claimed: readonly ClaimedRecord[]): Promise<void> {
  for (const { id } of claimed) {
    await until('the lease runs out', async () => (await find(backend, id)).state !== 'running')
  }
}

/** A running job whose lease expired, before any reclaim. */
export async function lapsedJob(backend: Backend, job: Partial<NewJob> = {}): Promise<ClaimedRecord> {
  const claimed = await runningJob(backend, job, { leaseMs: shortMs })
  await lapse(backend, claimed)
  return claimed
}

export function ids(records: readonly { readonly id: string }[]): string[] {
  return records.map(({ id }) => id)
}

/** The number in a token, which rises with every lease of the job. */
export function leaseNo(token: string): bigint {
  return BigInt(token.split('.')[0]!)
}
