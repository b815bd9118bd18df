/** Changes told once: reports are compared, decided on and kept, and what is to be told goes out through channels. */
export type { Channel } from './channels/channel.ts'
export type {
  DingTalkChannel,
  FeishuChannel,
  SlackChannel,
  SubscriptionChannel,
  WebhookChannel,
  WeComChannel,
} from './channels/subscription-channel.ts'
export {
  signWebhook,
  verifyWebhook,
  verifyWebhookDefaults,
  type WebhookCheck,
  type WebhookProblem,
  type WebhookVerdict,
} from './channels/verify.ts'
export { type Reason, reasons } from './decide.ts'
export type {
  ExplainOptions,
  ListDecisionsOptions,
  ListNotificationsOptions,
  ListSubjectsOptions,
  SubjectPlace,
} from './looking.ts'
export { notificationStatuses } from './looking.ts'
export type { SubjectMatch, TextMatch } from './match.ts'
export { createMonitor, type Monitor, type MonitorParts } from './monitor.ts'
export {
  type MonitorOptions,
  monitorDefaults,
  type ResolvedMonitorOptions,
  resolveMonitorOptions,
} from './options.ts'
export type { DeadNotifications, MonitorProblems, UnreadableChannel } from './problems.ts'
export type { FailedVenue, Report, ReportAnswer, ReportedChange } from './report.ts'
export type { ResealAnswer } from './reseal.ts'
export { SecretKeys } from './secrets/secret-keys.ts'
export type { Sender, SenderOptions } from './sender.ts'
export type { SendingTrouble } from './sending-trouble.ts'
export type { SendingCounts } from './sendingcounts.ts'
export type {
  ExplainedDecision,
  Explanation,
  ShownDecision,
  ShownNotification,
  ShownSubject,
  ShownVerdict,
  ShownWindow,
} from './shown.ts'
export type { Silence, SilenceOptions } from './silence.ts'
export * from './store.ts'
export {
  type SubscribeOptions,
  type Subscription,
  type SubscriptionOptions,
  subscriptionDefaults,
} from './subscription.ts'
export type { TestSendAnswer } from './testsend.ts'
