/** Alerts about the fleet: their rules, and how the monitor notifies them. */
export {
  type AlertOptions,
  alertDefaults,
  type ResolvedAlertOptions,
  resolveAlertOptions,
} from './alert-options.ts'
export {
  type Alert,
  type AlertFacts,
  type AlertLimits,
  type AlertRule,
  alertRules,
  judgeAlerts,
} from './alert-rules.ts'
export {
  type AlertSubscribeOptions,
  type AlertVerbs,
  alertSource,
  createAlerts,
  type FiringAlert,
} from './alerts.ts'
