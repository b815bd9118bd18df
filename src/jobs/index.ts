/** Jobs that commit with your data: leased, fenced, retried, kept. */
export * from './job.ts'
export * from './store.ts'
