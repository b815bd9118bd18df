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
} from './channels/webhook.ts'
export type { Sender, SenderOptions, TestSendAnswer } from './delivery/sender.ts'
export type { SendingCounts, SendingTrouble } from './delivery/sending-outcome.ts'
export { createMonitor, type Monitor, type MonitorParts } from './monitor.ts'
export {
  type MonitorOptions,
  monitorDefaults,
  type ResolvedMonitorOptions,
  resolveMonitorOptions,
} from './monitor-options.ts'
export {
  type DeadNotifications,
  type ExplainedDecision,
  type ExplainOptions,
  type Explanation,
  type ListDecisionsOptions,
  type ListNotificationsOptions,
  type ListSubjectsOptions,
  type MonitorProblems,
  notificationStatuses,
  type ShownDecision,
  type ShownNotification,
  type ShownSubject,
  type ShownVerdict,
  type ShownWindow,
  type UnreadableChannel,
} from './monitor-reads.ts'
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
export { type ResealAnswer, SecretKeys } from './stored-channels.ts'
export type { GivenPlace, ShownName, ShownPlace, SubjectPlace } from './subject-forms.ts'
export {
  type SubjectMatch,
  type SubscribeOptions,
  type Subscription,
  type SubscriptionOptions,
  subscriptionDefaults,
  type TextMatch,
} from './subscription.ts'
export type { Silence, SilenceOptions } from './subscription-rules.ts'
