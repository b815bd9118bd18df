/** Notifies changes once: compares reports, decides, stores the decisions, and sends notifications through channels. */
export type { Channel } from './channels/channel.ts'
export type * from './channels/index.ts'
export {
  signWebhook,
  verifyWebhook,
  verifyWebhookDefaults,
  type WebhookCheck,
  type WebhookProblem,
  type WebhookVerdict,
} from './channels/webhook-signature.ts'
export type { Sender, SenderOptions, TestSendAnswer } from './delivery/sender.ts'
export type { SendingCounts, SendingTrouble } from './delivery/sending-outcome.ts'
export type { SubjectMatch, TextMatch } from './match.ts'
export { createMonitor, type Monitor, type MonitorParts } from './monitor.ts'
export {
  type MonitorOptions,
  monitorDefaults,
  type ResolvedMonitorOptions,
  resolveMonitorOptions,
} from './monitor-options.ts'
export type {
  ExplainOptions,
  ListDecisionsOptions,
  ListNotificationsOptions,
  ListSubjectsOptions,
} from './monitor-reads.ts'
export { notificationStatuses } from './monitor-reads.ts'
export * from './monitor-store.ts'
export { type Reason, reasons } from './report/decide.ts'
export type {
  FailedSubject,
  Report,
  ReportAnswer,
  ReportedChange,
  SubjectReport,
  VenueReport,
} from './report/report.ts'
export type { ResealAnswer } from './secrets/reseal.ts'
export { SecretKeys } from './secrets/secret-keys.ts'
export type {
  DeadNotifications,
  ExplainedDecision,
  Explanation,
  MonitorProblems,
  ShownDecision,
  ShownNotification,
  ShownSubject,
  ShownVerdict,
  ShownWindow,
  UnreadableChannel,
} from './shown-records.ts'
export type { GivenPlace, ShownName, ShownPlace, SubjectPlace } from './subject-forms.ts'
export {
  type SubscribeOptions,
  type Subscription,
  type SubscriptionOptions,
  subscriptionDefaults,
} from './subscription.ts'
export type { Silence, SilenceOptions } from './subscription-rules.ts'
