/**
 * Every queue with live jobs. With the default, its two values are the namespace, twice. The index is hopped over from name to name, not read: but
 * only where the namespace is asked for as a range and named among the columns. By `namespace = ?` all of its entries
 * would be read, which takes a fifth of a second for 300,000 jobs.
 */
export function queueNames(queueTable: string, namespace = '?'): string {
  return `SELECT DISTINCT namespace, queue FROM ${queueTable} FORCE INDEX (job_queue_order) 
    WHERE namespace >= ${namespace} AND namespace <= ${namespace}`
}
