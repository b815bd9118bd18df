/** The contract of server and client: routes, problem documents, server-sent events. */

export * from './node-frames.ts'
export * from './openapi.ts'
export * from './problem.ts'
export * from './route.ts'
export * from './routes/attempts.ts'
export * from './routes/job-acts.ts'
export * from './routes/job-waits.ts'
export * from './routes/jobs.ts'
export * from './routes/locks.ts'
export * from './routes/monitor.ts'
export * from './routes/nodes.ts'
export * from './routes/once.ts'
export * from './routes/overview.ts'
export * from './routes/queues.ts'
export * from './routes/schedules.ts'
export {
  addAlerts,
  createSilence,
  endSilence,
  listAlerts,
  listSilences,
  listSubscriptions,
  removeAlerts,
  type SilenceBody,
  subscribe,
  type TestChannelBody,
  type TestChannelReply,
  testAlerts,
  testChannel,
  unsubscribe,
} from './routes/subscriptions.ts'
export * from './routes/system.ts'
export * from './routes/tasks.ts'
export * from './routes/workers.ts'
export * from './routes.ts'
export { type Described, nameOptions, type Schema, type Sent, schemaFor } from './schema.ts'
export * from './sse.ts'
export type { Page, PageQuery } from './values.ts'
export { term } from './values.ts'
