/** One of so many jobs is in the sample from which numbers of jobs are estimated. */
export const sampleShare = 128

/**
 * Whether a row is in the sample. Rows are numbered in the order in which they are added. The factor, 2^32 by the golden
 * ratio, spreads numbers evenly that follow each other in any step.
 */
export const isInSample: string = `((rowid & 2147483647) * 2654435761 >> 24) & ${sampleShare - 1} = 0`

/**
 * What jobs are counted by: scheduled and waiting jobs by queue, dead jobs by queue, and a sample of live jobs. A job outside
 * the sample has no entry there. The conditions hide these indexes from the planner of all other statements.
 */
export const counts: readonly string[] = [
  `CREATE INDEX job_queue_idle ON job_queue (namespace, state, queue, run_at)
    WHERE (state = 'scheduled' OR state = 'waiting') AND queue <> ''`,
  `CREATE INDEX job_queue_sample ON job_queue (namespace, queue, state, run_at, limit_key) WHERE ${isInSample}`,
  `CREATE INDEX job_history_dead ON job_history (namespace, queue) WHERE state = 'dead' AND queue <> ''`,
]
