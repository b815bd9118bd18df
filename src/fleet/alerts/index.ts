/** Alerts about the fleet: their rules, and how the monitor notifies them. */
export {
  type Alert,
  type AlertFacts,
  type AlertLimits,
  type AlertOptions,
  type AlertRule,
  alertDefaults,
  alertRules,
  judgeAlerts,
  type ResolvedAlertOptions,
  resolveAlertOptions,
} from './alert-rules.ts'
export {
  type AlertSubscribeOptions,
  type AlertVerbs,
  alertSource,
  createAlerts,
  type FiringAlert,
} from './alerts.ts'
