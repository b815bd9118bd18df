/** Dispatches tasks to nodes: matches them by the nodes' offers, reserves slots atomically, and ends each task once. */

export * from './cluster/cluster-store.ts'
export type {
  NodeConnector,
  NodeFrame,
  NodeLink,
  NodeSession,
  ServerFrame,
} from './connections/node-connection.ts'
export { createDispatch, type DispatchParts } from './create-dispatch.ts'
export type { PolicyOptions } from './dispatch-options.ts'
export { type DispatchOptions, dispatchDefaults, resolveDispatchOptions } from './dispatch-options.ts'
export type { DispatchEvent } from './effect-runner.ts'
export { type ExplainSource, type Explanation, explainSteps } from './explain-task.ts'
export { checkTerms, termLimits } from './matching/terms.ts'
export * from './node.ts'
export type { Assign, Effect, EffectKind, RegistryEvent, Settled } from './registry/command.ts'
export { type Command, type CommandKind, subjectOf } from './registry/command.ts'
export {
  type LaneName,
  laneNames,
  Mailbox,
  type MailboxOptions,
  type MailboxParts,
  mailboxDefaults,
} from './registry/mailbox.ts'
export { Registry, type RegistryCounts } from './registry/registry.ts'
export { type RegistryPolicy, registryDefaults } from './registry/registry-state.ts'
export type { ServiceCounts, ServiceSight } from './service-counts.ts'
export type * from './tasks/task.ts'
export { dispatchQueue, isKindOf } from './tasks/task-document.ts'
