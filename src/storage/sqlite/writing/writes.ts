import '../../sql/stores.ts'
import type {
  Added,
  CancelAnswer,
  ClaimedRecord,
  ClaimRequest,
  LeaseRef,
  NewJob,
  QueueLimits,
  Renewal,
  RetryAnswer,
  Verdict,
} from '../../../jobs/index.ts'
import type { LockStore } from '../../../locks/index.ts'
import type { LockTimes, Ruled } from '../../../locks/rules/index.ts'
import type { AppliedMigration, OnMigrationStep, RequestKey } from '../../backend.ts'
import type { Migration } from '../../migration-plan.ts'
import { decodeAnswer, encodeAnswer, leavesKey } from '../../request-key.ts'
import { findOperation } from '../../sql/procedure.ts'
import { checkAnswer, findAnswer, keepAnswer } from '../../sql/request-keys.ts'
import { type Connection, type Moment, readNow } from '../connection/connection.ts'
import { addJobs, runHere, runOperation } from '../connection/database.ts'
import { claimJobs } from '../jobs/claim.ts'
import * as control from '../jobs/control.ts'
import { takeBackLapsed } from '../jobs/reclaim.ts'
import { extend, findHeld } from '../jobs/renew.ts'
import { settleAll } from '../jobs/settle.ts'
import { readLeaseClock, rebaseLeases } from '../locks/lease-clock.ts'
import { type LockStep, sweepQueues, takeStep } from '../locks/lock-steps.ts'
import { applyMigrations } from '../migrator.ts'
import type { WriteCaller, WriteQueue } from './write-queue.ts'

/**
 * Every write, by name. A write is synchronous, runs on the connection of the write queue, and takes plain data as
 * arguments, so that caller and writer may be in different threads. All writes of a transaction share one reading of
 * the clock, taken after it got the lock: they decide by the same time, never by a time before the wait.
 */
export interface Writes {
  add(jobs: readonly NewJob[]): readonly Added[]
  /** Undefined: there was too much to sweep for one turn, and the caller should claim again. */
  claim(request: ClaimRequest): readonly ClaimedRecord[] | undefined
  renew(leases: readonly LeaseRef[], leaseMs: number): readonly Renewal[]
  settle(verdicts: readonly Verdict[]): readonly boolean[]
  reclaim(limit: number): { ready: number; dead: number; cancelled: number }
  cancel(id: string): CancelAnswer | undefined
  retry(id: string): RetryAnswer | undefined
  retryDead(query: { readonly queue?: string; readonly kind?: string; readonly limit: number }): number
  pause(queue: string): void
  resume(queue: string): void
  setLimits(queue: string, limits: QueueLimits | null): void
  remove(ids: readonly string[]): readonly string[]
  prune(request: { readonly olderThanMs: number; readonly limit: number }): number
  lock(...step: LockStep): Ruled<object>
  sweepLocks(limit: number, times: LockTimes): Awaited<ReturnType<LockStore['sweep']>>
  /** Runs a shared operation of all SQL engines, by its name. */
  run(name: string, args: readonly unknown[]): unknown
  /** Converts leases of an earlier boot of the host to the clock of this boot. */
  rebaseLeases(bootId: string): void
  migrate(known: readonly Migration[], onStep?: OnMigrationStep): readonly AppliedMigration[]
}

export type Operation = keyof Writes

/** One requested write. With a key, it takes effect only once. */
export interface WriteCall<Name extends Operation = Operation> {
  readonly operation: Name
  readonly namespace: string
  readonly args: Parameters<Writes[Name]>
  readonly key?: RequestKey | undefined
}

type Performers = {
  readonly [Name in Operation]: (
    moment: Moment,
    ...args: Parameters<Writes[Name]>
  ) => ReturnType<Writes[Name]>
}

const performers: Performers = {
  add: addJobs,
  claim: claimJobs,
  renew: (moment, leases, leaseMs) =>
    findHeld(moment, leases).flatMap((held, i) => {
      if (!held) return []
      const { jobId, token } = leases[i]!
      const leaseEndsAt = extend(moment, held, moment.now + leaseMs)
      return [{ jobId, token, leaseEndsAt, cancelRequested: held.cancelRequested }]
    }),
  settle: settleAll,
  reclaim: (moment, limit) => {
    const counts = { ready: 0, dead: 0, cancelled: 0 }
    for (const state of takeBackLapsed(moment, limit)) counts[state]++
    return counts
  },
  ...control,
  lock: (moment, ...step) => takeStep(moment, step),
  sweepLocks: sweepQueues,
  run: ({ connection, now }, name, args) => runOperation(connection, findOperation(name), args, now),
  rebaseLeases: ({ connection }, bootId) => rebaseLeases(connection, bootId, readLeaseClock(connection)),
  migrate: ({ connection }, known, onStep) => applyMigrations(connection, known, onStep),
}

/** Runs one write in the connection's current transaction. With a key, it runs only if the key is not stored yet. */
export function perform(connection: Connection, call: WriteCall): unknown {
  const { operation, namespace, args, key } = call
  const { turn } = connection
  turn.now ??= readNow(connection)
  const { now } = turn
  const write = performers[operation] as (moment: Moment, ...args: readonly unknown[]) => unknown
  if (key === undefined) return write({ connection, namespace, now }, ...args)

  // There is one writer, so no other call with this key is in progress.
  const kept = runHere(connection, findAnswer(namespace, key), now)
  checkAnswer(kept, key, true)
  if (kept) return decodeAnswer(kept.answer)
  const answer = write({ connection, namespace, now }, ...args)
  if (leavesKey(operation, answer)) runHere(connection, keepAnswer(namespace, key, encodeAnswer(answer)), now)
  return answer
}

/** Runs the store's writes: on the write queue of this thread, or of a separate thread (writer-thread.ts). */
export interface Writer {
  /** Resolves after the commit. `begunAt`: the start of the wait, if it began before this call. */
  write<Name extends Operation>(call: WriteCall<Name>, begunAt?: number): Promise<ReturnType<Writes[Name]>>
  /** Runs the pending writes, refuses later ones, and closes the file. */
  close(): Promise<void>
}

/** A writer whose write queue is in this thread. */
export interface QueueWriter extends Writer {
  /** Like `write`, but answers through callbacks. */
  submit(call: WriteCall, caller: WriteCaller, begunAt?: number): void
}

export function createQueueWriter(writeQueue: WriteQueue): QueueWriter {
  const submit = (call: WriteCall, caller: WriteCaller, begunAt?: number) =>
    writeQueue.submit((connection) => perform(connection, call), caller, {
      urgent: isUrgent(call),
      name: nameOf(call),
      begunAt,
    })
  return {
    submit,
    write: (call, begunAt) =>
      new Promise((resolve, reject) =>
        submit(call as WriteCall, { resolve, reject } as WriteCaller, begunAt),
      ),
    close: () => writeQueue.close(),
  }
}

/** Shared operations have their own name. Other writes with steps are named by step: `lock.renew`. */
function nameOf({ operation, args }: Pick<WriteCall, 'operation' | 'args'>): string {
  if (operation === 'run') return args[0] as string
  const hasSteps = operation === 'lock'
  return hasSteps ? `${operation}.${args[0]}` : operation
}

/** Renewals of leases go first: a renewal that comes too late causes duplicate work. */
export function isUrgent({ operation, args }: Pick<WriteCall, 'operation' | 'args'>): boolean {
  if (operation === 'run') return findOperation(args[0] as string).connectionGroup === 'heartbeat'
  return operation === 'renew' || (operation === 'lock' && args[0] === 'renew')
}
