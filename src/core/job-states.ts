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
