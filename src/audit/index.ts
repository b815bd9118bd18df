/** Who did what as an operator: a record that is written once and only read afterwards. */
export { type Audit, type AuditPage, createAudit } from './audit.ts'
export { type AuditAct, type ListAuditOptions, listAuditDefaults } from './audit-options.ts'
export * from './audit-record.ts'
export * from './audit-store.ts'
