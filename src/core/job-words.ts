/** Every state of a job, in the order of a job's life. Server, client, command line and dashboard take the list from here. */
export const jobStates = [
  'scheduled',
  'ready',
  'waiting',
  'running',
  'completed',
  'dead',
  'cancelled',
] as const

/** Counts of the jobs of a queue below this are exact. */
export const exactBelow = 10_000

/** A count of a queue as people read it: with "~" before an estimate. */
export function showCount(
  { approximate }: { readonly approximate: boolean },
  count: number,
  show: (count: number) => string = String,
): string {
  return approximate && count >= exactBelow ? `~${show(count)}` : show(count)
}

/** The queue of tasks for nodes. What happens to tasks is counted as of jobs, whose kind is the service. */
export const taskQueue = 'signalbox.dispatch'
