/** Alerts about the fleet: their rules, and how the monitor notifies them. */
export * from './alert-rules.ts'
export * from './alerts.ts'
