/**
 * What the workers of a campaign do with their jobs. A job's payload says how long it takes and how it goes wrong, so
 * that the campaign decides and the worker process needs no random numbers. Every handler that has an effect writes
 * it in the transaction that ends its job.
 */
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Handler, HandlerJob, StoreTransaction } from '../../../src/jobs/index.ts'
import { connect } from '../ground.ts'
import type { Recorder } from '../history.ts'

export interface Payload {
  /** Effects the job has when it is completed. @default ['main'] for kinds with effects */
  readonly parts?: readonly string[]
  /** Work before the transaction. */
  readonly beforeMs?: number
  /** Block the event loop so long, in the first attempt alone. */
  readonly blockMs?: number
  /** Work inside the transaction, after the effect is written. */
  readonly insideMs?: number
  /** Fail in the transaction until this attempt. */
  readonly failUntil?: number
  /** `tangle`: rows to lock one after the other. */
  readonly rows?: readonly number[]
  /** `tangle`: go on as if nothing had happened when the database complains. */
  readonly swallow?: boolean
  /** `poison`: how the process dies. */
  readonly by?: 'exit' | 'kill'
}

export interface Surroundings {
  readonly url: string
  readonly workerId: string
  readonly recorder: Recorder
}

type CrashJob = HandlerJob<Payload>
type Write = (part: string) => Promise<unknown>

export function createHandlers(surroundings: Surroundings): Record<string, Handler> {
  const { url, workerId, recorder } = surroundings

  const begun = async (job: CrashJob): Promise<void> => {
    recorder.write({ type: 'invoke', op: 'begin', items: [{ job: job.id, token: job.token }] })
    if (job.payload.beforeMs) await sleep(job.payload.beforeMs)
    const { blockMs = 0 } = job.payload
    if (blockMs > 0 && job.attempt === 1)
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, blockMs)
  }

  const writing =
    (job: CrashJob, tx: StoreTransaction): Write =>
    (part) =>
      tx.sql`INSERT INTO effects (job, part, token, worker, nonce)
             VALUES (${job.id}, ${part}, ${job.token}, ${workerId}, ${aNonce()})`

  /** The usual way: the store's own transaction. */
  const transaction = async (job: CrashJob): Promise<void> => {
    await begun(job)
    await job.transaction(async (tx) => {
      const write = writing(job, tx)
      for (const part of job.payload.parts ?? ['main']) await write(part)
      if (job.payload.insideMs) await sleep(job.payload.insideMs)
      if (job.attempt <= (job.payload.failUntil ?? 0)) throw new Error('not yet')
      return { ok: true }
    })
  }

  /** The other way: the user's own connection and transaction, ended by hand. */
  const inOwnTransaction = async (
    job: CrashJob,
    work: (write: Write, ack: () => Promise<void>) => Promise<void>,
  ): Promise<void> => {
    await begun(job)
    await using caller = await connect(url)
    await caller.begin()
    try {
      const write: Write = (part) =>
        caller.exec(
          'INSERT INTO effects (job, part, token, worker, nonce) VALUES (?, ?, ?, ?, ?)',
          job.id,
          part,
          job.token,
          workerId,
          aNonce(),
        )
      await work(write, async () => void (await job.ack({ tx: caller.tx })))
      if (job.attempt <= (job.payload.failUntil ?? 0)) throw new Error('not yet')
      await caller.commit()
    } catch (error) {
      await caller.rollback().catch(() => undefined)
      throw error
    }
  }

  return {
    transaction,
    grouped: { run: transaction, group: 10 },
    own: (job: CrashJob) =>
      inOwnTransaction(job, async (write, ack) => {
        await write('main')
        await ack()
        if (job.payload.insideMs) await sleep(job.payload.insideMs)
      }),
    /** Acks first, and does its work after that, in the same transaction. */
    ackfirst: (job: CrashJob) =>
      inOwnTransaction(job, async (write, ack) => {
        await ack()
        if (job.payload.insideMs) await sleep(job.payload.insideMs)
        await write('main')
      }),
    /** Catches every error and commits: what a careless handler does when its lease is lost. */
    swallow: (job: CrashJob) =>
      inOwnTransaction(job, async (write, ack) => {
        await write('main')
        try {
          await ack()
        } catch (error) {
          const { code } = error as { readonly code?: string }
          recorder.write({ type: 'ok', op: 'note', items: [{ job: job.id }], detail: `swallowed ${code}` })
          await write('main').catch(() => undefined)
        }
      }).catch(() => undefined),
    plain: begun,

    /** Locks rows in its own order, so that two of them deadlock, or wait longer for each other than they may. */
    async tangle(job: CrashJob) {
      await begun(job)
      await job.transaction(async (tx) => {
        const write = writing(job, tx)
        await write('before')
        for (const row of job.payload.rows ?? []) {
          try {
            await tangledUpdate(tx, url, row)
          } catch (error) {
            recorder.write({ type: 'ok', op: 'note', items: [{ job: job.id }], detail: codeOf(error) })
            if (!job.payload.swallow) throw error
          }
          await sleep(20)
        }
        await write('after')
      })
    },

    /** Takes its process with it, every time. */
    async poison(job: CrashJob) {
      await begun(job)
      if (job.payload.by === 'exit') process.exit(3)
      process.kill(process.pid, 'SIGKILL')
      await sleep(10_000)
    },
  }
}

/** Waits a second at most for the row, whatever the server's default is. */
async function tangledUpdate(tx: StoreTransaction, url: string, row: number): Promise<void> {
  if (url.startsWith('mysql')) {
    await tx.query(
      'SET STATEMENT innodb_lock_wait_timeout = 1 FOR UPDATE tangles SET touched = touched + 1 WHERE id = ?',
      [row],
    )
    return
  }
  if (url.startsWith('postgres')) await tx.sql`SET LOCAL lock_timeout = '1s'`
  await tx.sql`UPDATE tangles SET touched = touched + 1 WHERE id = ${row}`
}

function codeOf(error: unknown): string {
  const { errno, code, cause } = error as { errno?: number; code?: string; cause?: unknown }
  if (cause !== undefined) return codeOf(cause)
  return String(errno ?? code ?? error)
}

function aNonce(): string {
  return randomBytes(8).toString('hex')
}
