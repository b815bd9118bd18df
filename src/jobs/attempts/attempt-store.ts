/**
 * Attempts that failed or were lost, and groups of their errors. The job store writes the row of an attempt in the
 * transaction of its verdict, or of the reclaim. This store counts these rows in groups later. So thousands of failing
 * jobs never wait for the row of one group.
 *
 *     settle, reclaim ──▶ attempt without a fingerprint ──count──▶ attempt with a fingerprint, counted in its group
 */
export interface AttemptStore {
  /** The last attempts of a job that failed or were lost, oldest first, up to 50. */
  list(jobId: string): Promise<readonly AttemptRecord[]>
  /** Up to `limit` attempts that no group counts yet. */
  uncounted(limit: number): Promise<readonly UncountedAttempt[]>
  /**
   * Counts attempts in their groups, each once, also when several callers count it at the same time. Deletes the oldest
   * attempts of a job with more than 50. Returns the attempts that this call counted.
   */
  count(attempts: readonly CountedAttempt[]): Promise<readonly CountedAttempt[]>
  /** Groups by the time of their last error, the latest first. */
  groups(query: GroupQuery): Promise<readonly ErrorGroupRecord[]>
  group(fingerprint: string): Promise<ErrorGroupRecord | undefined>
  /** Deletes up to `limit` groups without an error for `olderThanMs`. Returns their number. */
  prune(request: { readonly olderThanMs: number; readonly limit: number }): Promise<number>
}

/** How an attempt ended. `failed`: the job runs again. `dead`: it was the last attempt. `lost`: the lease expired. */
export type AttemptEnd = 'failed' | 'dead' | 'lost'

/** A stored attempt. */
export interface AttemptRecord {
  readonly jobId: string
  /** Rises with every claim of the job. After a retry, `attempt` begins at 1 again, but this number does not. */
  readonly number: number
  readonly attempt: number
  readonly queue: string
  readonly kind: string
  readonly outcome: AttemptEnd
  readonly workerId: string | null
  /** The release of its worker; null: the worker named none. */
  readonly release: string | null
  readonly startedAt: number | null
  readonly endedAt: number
  /** JSON text. */
  readonly error: string
  /** The error as the reader sees it, if some of it is hidden. A store does not set it. */
  readonly shownError?: string
}

/** An attempt that no group counts yet. */
export interface UncountedAttempt extends AttemptRecord {
  /** The attempt was lost and the job is dead. No worker wrote that end, so no process has counted it. */
  readonly isUnseenEnd: boolean
}

/** An attempt with the group that counts it. An empty fingerprint: no group counts it. */
export interface CountedAttempt extends UncountedAttempt {
  readonly fingerprint: string
}

export interface GroupQuery {
  readonly kind?: string
  readonly limit: number
  /** The last group of the page before. */
  readonly before?: { readonly lastSeenAt: number; readonly fingerprint: string }
}

/** A group of similar errors of one kind of job. */
export interface ErrorGroupRecord {
  readonly fingerprint: string
  readonly kind: string
  /** The number of attempts that ended with this error, including those of jobs that are gone. */
  readonly attemptCount: number
  readonly firstSeenAt: number
  readonly lastSeenAt: number
  /** The last releases with this error, the newest last, up to 10. */
  readonly releases: readonly string[]
  /** The ids of jobs with this error, the newest last, up to 10. The jobs may be gone. */
  readonly sampleJobs: readonly string[]
  /** One of the errors, as JSON text. */
  readonly error: string
  /** The error as the reader sees it, if some of it is hidden. A store does not set it. */
  readonly shownError?: string
}
