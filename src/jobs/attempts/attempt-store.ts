/**
 * Attempts that failed or were lost, and groups of their errors. The job store writes the row of an attempt in the
 * transaction of its verdict, or of the reclaim. This store reads those rows and counts them in groups later, so that
 * jobs that fail in their thousands never wait for the row of a group.
 *
 *     settle, reclaim ──▶ attempt without a fingerprint ──count──▶ attempt with one, counted in its group
 */
export interface AttemptStore {
  /** The last attempts of a job that failed or were lost, oldest first, up to 50. */
  list(jobId: string): Promise<readonly AttemptRecord[]>
  /** Up to `limit` attempts that no group counts yet. */
  uncounted(limit: number): Promise<readonly UncountedAttempt[]>
  /**
   * Counts attempts in their groups, each once, also when several callers count it at the same time. Of a job with more
   * than 50, the oldest are deleted. Returns those that this call counted.
   */
  count(attempts: readonly CountedAttempt[]): Promise<readonly CountedAttempt[]>
  /** Groups by the time of their last error, the latest first. */
  groups(query: GroupQuery): Promise<readonly ErrorGroupRecord[]>
  group(fingerprint: string): Promise<ErrorGroupRecord | undefined>
  /** Deletes up to `limit` groups without an error since then. Returns how many. */
  prune(request: { readonly olderThanMs: number; readonly limit: number }): Promise<number>
}

/** How an attempt ended: `failed` runs again, `dead` was the last one, `lost` had a lease that expired. */
export type AttemptEnd = 'failed' | 'dead' | 'lost'

/** An attempt as a store keeps it. */
export interface AttemptRecord {
  readonly jobId: string
  /** Rises with every claim of the job, for ever. After a retry, `attempt` begins at 1 again, and this does not. */
  readonly number: number
  readonly attempt: number
  readonly queue: string
  readonly kind: string
  readonly outcome: AttemptEnd
  readonly workerId: string | null
  /** The release that its worker said it runs; null: none was said. */
  readonly release: string | null
  readonly startedAt: number | null
  readonly endedAt: number
  /** JSON text. */
  readonly error: string
  /** What a reader sees of the error where some of it is hidden; a store leaves it out. */
  readonly shownError?: string
}

/** An attempt that no group counts yet. */
export interface UncountedAttempt extends AttemptRecord {
  /** It was lost and the job is dead by it: no worker wrote that end, so no process has counted it. */
  readonly isUnseenEnd: boolean
}

/** An attempt with the group that counts it. An empty fingerprint: none does. */
export interface CountedAttempt extends UncountedAttempt {
  readonly fingerprint: string
}

export interface GroupQuery {
  readonly kind?: string
  readonly limit: number
  /** The last group of the page before. */
  readonly before?: { readonly lastSeenAt: number; readonly fingerprint: string }
}

/** Errors of one kind of job that are alike. */
export interface ErrorGroupRecord {
  readonly fingerprint: string
  readonly kind: string
  /** How many attempts ended with it, also of jobs that are gone by now. */
  readonly attemptCount: number
  readonly firstSeenAt: number
  readonly lastSeenAt: number
  /** The last releases in which it was seen, the newest last, up to 10. */
  readonly releases: readonly string[]
  /** The ids of jobs that had it, the newest last, up to 10. They may be gone. */
  readonly sampleJobs: readonly string[]
  /** One of the errors, as JSON text. */
  readonly error: string
  /** What a reader sees of it where some of it is hidden; a store leaves it out. */
  readonly shownError?: string
}
