import type { Added, NewJob } from '../../jobs/index.ts'
import type { Operation } from './procedure.ts'

/** Where a store's operations run: one for each engine. */
export interface Database {
  run<Args extends readonly unknown[], Answer>(
    operation: Operation<Args, Answer>,
    args: NoInfer<Args>,
    options?: RunOptions,
  ): Promise<Answer>
}

export interface RunOptions {
  /** A transaction that the caller opened: the operation takes part in it, and does not commit. */
  readonly tx?: unknown
  /** Of a renewal: how long the lease is. It is given up in time for another try. */
  readonly leaseMs?: number
  /** Until when (of `performance.now()`) MariaDB tries again after conflicts. */
  readonly deadline?: number
}

/** How an engine adds jobs in the transaction of a procedure. */
export type JobAdder<Session> = (session: Session, jobs: readonly NewJob[]) => JobsBeingAdded

export interface JobsBeingAdded {
  readonly added: Promise<readonly Added[]>
  /** Whether all its statements have been sent, so that COMMIT may go right behind them. @default false */
  readonly isSent?: boolean
  /** Called when the transaction was committed. */
  committed(): void
}
