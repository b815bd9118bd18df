import type { listAudit } from '../../contract/index.ts'
import type { Handler } from '../call.ts'

/** The routes of the audit, by their ids. */
export interface AuditHandlers {
  readonly listAudit: Handler<typeof listAudit>
}

export const auditHandlers: AuditHandlers = {
  async listAudit({ query, space }) {
    return { body: await space.audit.list(query) }
  },
}
