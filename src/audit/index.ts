/** The audit: records the actions of operators. Entries never change. */
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
