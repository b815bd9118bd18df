/** Who did what as an operator: a record that is written once and only read afterwards. */
export {
  type Audit,
  type AuditAct,
  type AuditPage,
  createAudit,
  type ListAuditOptions,
  listAuditDefaults,
} from './audit.ts'
export * from './audit-store.ts'
export * from './audit-store.ts'
