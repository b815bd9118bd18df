import type { Added, NewJob } from '../../jobs/index.ts'
import type { Operation } from './procedure.ts'

/** Runs the operations of stores. Each engine has one implementation. */
export interface Database {
  run<Args extends readonly unknown[], Answer>(
    operation: Operation<Args, Answer>,
    args: NoInfer<Args>,
    options?: RunOptions,
  ): Promise<Answer>
}

export interface RunOptions {
  /** A transaction that the caller opened. The operation joins it and does not commit. */
  readonly tx?: unknown
  /** For a renewal: the length of the lease. The call times out early enough for another try. */
  readonly leaseMs?: number
  /** MariaDB retries after conflicts until this time of `performance.now()`. */
  readonly deadline?: number
}

/** Adds jobs in the transaction of a procedure, with the engine's statements. */
export type JobAdder<Session> = (session: Session, jobs: readonly NewJob[]) => JobsBeingAdded

export interface JobsBeingAdded {
  readonly added: Promise<readonly Added[]>
  /** Whether all statements were sent already, so that COMMIT can directly follow them. @default false */
  readonly isSent?: boolean
  /** The database calls it after the commit. */
  committed(): void
}
