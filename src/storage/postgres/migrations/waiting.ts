/**
 * Ended jobs by their end, for streams that resume. The end comes first, so entries are appended at the right edge. A BRIN
 * index would be smaller, but only bitmap scans read it, and the store's connections plan without those.
 */
export function waiting(schema: string): readonly string[] {
  return [`CREATE INDEX job_history_ended ON ${schema}.job_history (finished_at)`]
}
