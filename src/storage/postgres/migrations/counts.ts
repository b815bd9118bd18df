/** One of so many jobs is in the sample from which numbers of jobs are estimated. */
export const sampleShare = 128

export const hashOfId = 'hashtextextended(id, 0)'
export const isInSample: string = `(${hashOfId} & ${sampleShare - 1}) = 0`

/**
 * What jobs are counted by: the waiting jobs by queue, and a sample of live and of dead jobs in the order of a hash of their ids. A
 * job outside the sample has no entry there. The conditions hide these indexes from the planner of all other statements.
 */
export function counts(schema: string): readonly string[] {
  return [
    `CREATE INDEX job_queue_waiting_queue ON ${schema}.job_queue (namespace, queue)
  WHERE state = 'waiting' AND queue <> ''`,
    `CREATE INDEX job_queue_sample ON ${schema}.job_queue (namespace, queue, state, ${hashOfId}) WHERE ${isInSample}`,
    `CREATE INDEX job_history_sample ON ${schema}.job_history (namespace, queue, ${hashOfId})
  WHERE state = 'dead' AND ${isInSample}`,
  ]
}
