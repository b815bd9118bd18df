/** The queue of tasks for nodes. What happens to tasks is counted as of jobs, whose kind is the service. */
export const taskQueue = 'signalbox.dispatch'
