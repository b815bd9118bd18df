/**
 * The stage for refused calls in a caller's transaction: a table of the user's, a connection, and the jobs of a store.
 */
import assert from 'node:assert/strict'
import { isSignalboxError, type SignalboxError } from '../../../src/core/errors.ts'
import {
  type ClaimedRecord,
  createJobs,
  type HandlerJob,
  type JobStore,
  type Jobs,
} from '../../../src/jobs/index.ts'
import type { Backend } from '../../../src/storage/backend.ts'
import { within } from '../../support/deadline.ts'
import type { Caller } from '../callers.ts'
import type { SqlSide } from '../candidates.ts'
import { type Ledger, openLedger } from './ledger.ts'

export interface Stage extends AsyncDisposable {
  readonly caller: Caller
  readonly jobs: Jobs
  readonly ledger: Ledger
  note(text: string): Promise<unknown>
  /** Commits the work. */
  inTransaction(work: (stage: Stage) => Promise<unknown>): Promise<void>
  /** Writes rows around a refused call, swallows every error and commits. Returns the error of the call. */
  swallowing(call: (stage: Stage) => Promise<unknown>): Promise<SignalboxError>
  /** The same connection works for the next transaction, and for a single statement. */
  worksAgain(): Promise<void>
}

export async function openStage(
  backend: Backend,
  sql: SqlSide,
  store: JobStore = backend.jobs,
): Promise<Stage> {
  const ledger = await openLedger(sql)
  const caller = await sql.connect()
  const jobs = createJobs({ store, notifier: backend.notifier })
  const note = (text: string) => caller.exec(`INSERT INTO ${ledger.table} (note) VALUES (?)`, text)
  const stage: Stage = {
    caller,
    jobs,
    ledger,
    note,
    async inTransaction(work) {
      await caller.begin()
      await work(stage)
      await caller.commit()
    },
    async swallowing(call) {
      await caller.begin()
      await note('before a refused call')
      const error: unknown = await call(stage).then(
        () => assert.fail('the call was not refused'),
        (error: unknown) => error,
      )
      await note('after a refused call').catch(() => undefined)
      await caller.commit().catch(() => undefined)
      // Where COMMIT throws, its caller rolls back.
      await caller.rollback().catch(() => undefined)
      assert.ok(isSignalboxError(error), String(error))
      return error
    },
    async worksAgain() {
      await note('works again')
      await caller.exec(`DELETE FROM ${ledger.table}`)
      await stage.inTransaction(() => note('works again'))
      assert.deepEqual(await ledger.logs(), ['works again'])
    },
    async [Symbol.asyncDispose]() {
      await caller[Symbol.asyncDispose]()
      await jobs[Symbol.asyncDispose]()
      await ledger[Symbol.asyncDispose]()
    },
  }
  return stage
}

/** The fields of a claimed job that settling needs. */
export function held({ id, token }: ClaimedRecord): { readonly id: string; readonly token: string } {
  return { id, token }
}

/** The store, with another way to add. */
export function failing(store: JobStore, add: JobStore['add']): JobStore {
  return new Proxy(store, {
    get(target, name) {
      const member: unknown = name === 'add' ? add : Reflect.get(target, name)
      return typeof member === 'function' ? member.bind(target) : member
    },
  })
}

/** Lets a worker run one job. Returns the value of its handler. */
export async function runOne(
  jobs: Jobs,
  run: (job: HandlerJob) => Promise<unknown>,
  group = 1,
): Promise<unknown> {
  const { promise, resolve } = Promise.withResolvers<unknown>()
  const handler = async (job: HandlerJob) => resolve(await run(job))
  const worker = jobs.worker({ queues: ['mail'], pollMs: 20, handlers: { run: { run: handler, group } } })
  await worker.start()
  try {
    await jobs.add('run', {}, { queue: 'mail' })
    return await within(20_000, 'the handler', promise)
  } finally {
    await worker.stop({ graceMs: 1_000 })
  }
}
