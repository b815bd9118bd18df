/** Who did what as an operator: a record that is written once and only read afterwards. */
export { type Audit, type AuditPage, createAudit } from './audit.ts'
export { type AuditAct, type ListAuditOptions, listAuditDefaults } from './options.ts'
export * from './record.ts'
export * from './store.ts'
