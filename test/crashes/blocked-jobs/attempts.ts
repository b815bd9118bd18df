/**
 * Attempts write their start and their end into the database of the jobs, by its clock. A killed attempt has no end: it
 * lived until its lease expired. No attempt appears longer than it was, so a count above the limit is a real violation.
 */
import type { HandlerJob } from '../../../src/jobs/index.ts'
import type { Caller } from '../../conformance/callers.ts'
import { ask, connect } from '../ground.ts'

export interface BlockedProcessOptions {
  readonly url: string
  readonly namespace: string
  readonly queues: readonly string[]
  readonly leaseMs: number
}

export interface BlockedPayload {
  /** How long it works. */
  readonly ms: number
}

/** An attempt, from its claim until its end. Instants are the database's. */
export interface Attempt {
  readonly job: string
  readonly limitKey: string | null
  readonly fence: number | null
  readonly claimedAt: number
  readonly endsAt: number
  readonly completed: boolean
}

/** The present, in milliseconds, when the statement comes to it. */
export function nowSql(url: string): string {
  if (url.startsWith('postgres')) return 'floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint'
  if (url.startsWith('mysql')) return 'FLOOR(UNIX_TIMESTAMP(SYSDATE(6)) * 1000)'
  return "CAST(unixepoch('subsec') * 1000 AS INTEGER)"
}

export async function createAttemptTables(url: string): Promise<void> {
  await ask(
    url,
    `CREATE TABLE attempt_start (
       job VARCHAR(64) NOT NULL, claimed_at BIGINT NOT NULL, lease_ends_at BIGINT NOT NULL,
       limit_key VARCHAR(191), fence BIGINT)`,
  )
  await ask(
    url,
    `CREATE TABLE attempt_end (
       job VARCHAR(64) NOT NULL, claimed_at BIGINT NOT NULL, how VARCHAR(16) NOT NULL, at BIGINT NOT NULL)`,
  )
}

export interface AttemptLog extends AsyncDisposable {
  begun(job: HandlerJob): Promise<void>
  left(job: HandlerJob): Promise<void>
}

/** Writes on a separate connection, one row after the other. */
export async function createAttemptLog(url: string): Promise<AttemptLog> {
  const caller = await connect(url)
  let last: Promise<unknown> = Promise.resolve()
  const write = (sql: string, ...params: readonly (string | number | null)[]) => {
    const written = last.then(() => inTransaction(caller, sql, params))
    last = written.catch(() => undefined)
    return written
  }
  return {
    begun: (job) =>
      write(
        'INSERT INTO attempt_start (job, claimed_at, lease_ends_at, limit_key, fence) VALUES (?, ?, ?, ?, ?)',
        ...[job.id, job.startedAt, job.leaseEndsAt, job.limitKey, job.fence],
      ),
    left: (job) =>
      write(
        `INSERT INTO attempt_end (job, claimed_at, how, at) VALUES (?, ?, 'left', ${nowSql(url)})`,
        ...[job.id, job.startedAt],
      ),
    [Symbol.asyncDispose]: () => caller[Symbol.asyncDispose]() as Promise<void>,
  }
}

async function inTransaction(
  caller: Caller,
  sql: string,
  params: readonly (string | number | null)[],
): Promise<void> {
  await caller.begin()
  try {
    await caller.exec(sql, ...params)
    await caller.commit()
  } catch (error) {
    await caller.rollback().catch(() => undefined)
    throw error
  }
}

type Row = Readonly<Record<string, unknown>>

/** Every attempt that began, by its claim. */
export async function readAttempts(url: string): Promise<readonly Attempt[]> {
  const ends = Map.groupBy(await ask(url, 'SELECT job, claimed_at, how, at FROM attempt_end'), nameOf)
  const starts = await ask(url, 'SELECT job, claimed_at, lease_ends_at, limit_key, fence FROM attempt_start')
  return starts
    .map((row) => {
      const own = ends.get(nameOf(row)) ?? []
      const completed = own.find(({ how }) => how === 'completed')
      const left = Math.min(...own.map(({ at }) => Number(at)))
      return {
        job: String(row.job),
        limitKey: row.limit_key === null ? null : String(row.limit_key),
        fence: row.fence === null ? null : Number(row.fence),
        claimedAt: Number(row.claimed_at),
        endsAt: completed === undefined ? Math.min(left, Number(row.lease_ends_at)) : Number(completed.at),
        completed: completed !== undefined,
      }
    })
    .sort((a, b) => a.claimedAt - b.claimedAt)
}

/** Ends that were committed, as the jobs they are of; a job that is in it twice had its effect twice. */
export async function readCompleted(url: string): Promise<readonly string[]> {
  return (await ask(url, "SELECT job FROM attempt_end WHERE how = 'completed'")).map(({ job }) => String(job))
}

function nameOf({ job, claimed_at }: Row): string {
  return `${job} ${claimed_at}`
}
