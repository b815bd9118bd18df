/** Alerts of the fleet on itself: rules, and their way into the monitor. */
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
