/** Ended jobs by their end, for streams that resume. The end comes first, so entries are appended at the right edge. */
export const waiting: readonly string[] = [
  `CREATE INDEX IF NOT EXISTS job_history_ended ON job_history (finished_at)`,
]
