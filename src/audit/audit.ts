import { invalidArgument } from '../core/errors.ts'
import { createId } from '../core/ids.ts'
import { oneOf, onlyKeys, show, text, whole } from '../core/options.ts'
import {
  type AuditActor,
  type AuditEntry,
  type AuditOutcome,
  type AuditQuery,
  type AuditStore,
  type AuditTarget,
  auditOutcomes,
  type NewAuditEntry,
} from './audit-store.ts'

/** Records the actions of operators, and lists them. */
export interface Audit {
  /** Writes an entry. After the call it is durable until it is pruned. */
  record(act: AuditAct): Promise<void>
  /** Lists entries, newest first. */
  list(options?: ListAuditOptions): Promise<AuditPage>
}

export interface AuditPage {
  readonly items: readonly AuditEntry[]
  readonly cursor: string | null
}

/** Creates the audit of one namespace on its store. */
export function createAudit({ store }: { readonly store: AuditStore }): Audit {
  return {
    async record(act) {
      await store.write([resolveAct(act)])
    },

    async list(options = {}) {
      const query = resolveListAudit(options)
      const entries = await store.list(query)
      const items = entries.slice(0, query.limit - 1)
      return { items, cursor: entries.length === query.limit ? items.at(-1)!.id : null }
    },
  }
}

/** An entry to record. */
export interface AuditAct {
  readonly actor: AuditActor
  /** Such as 'lock.evict'. */
  readonly action: string
  /** Names and ids of the target: no secrets, no payloads. */
  readonly target: AuditTarget
  /** @default 'done' */
  readonly outcome?: AuditOutcome | undefined
  /** The error's code, unless the action was done. */
  readonly code?: string | null | undefined
}

/** Filters and page of a list. */
export interface ListAuditOptions {
  readonly action?: string | undefined
  /** The actor's id. */
  readonly actor?: string | undefined
  /** @default 50 */
  readonly limit?: number | undefined
  /** The cursor of the previous page. */
  readonly cursor?: string | undefined
}

export const listAuditDefaults: { readonly limit: number } = { limit: 50 }

/** Enough for the longest names of a lock in any script. */
const maxTargetChars = 16_384

/** Checks an action and returns its entry. */
function resolveAct(act: AuditAct): NewAuditEntry {
  onlyKeys('audit', act, ['actor', 'action', 'target', 'outcome', 'code'])
  const { actor, action, target, outcome = 'done', code = null } = act
  return {
    id: createId(),
    actor: {
      id: text('audit.actor.id', actor?.id),
      name: actor.name === null ? null : text('audit.actor.name', actor.name),
    },
    action: text('audit.action', action),
    target: checkTarget(target),
    outcome: oneOf('audit.outcome', outcome, auditOutcomes),
    code: code === null ? null : text('audit.code', code),
  }
}

/** Returns the query for the store. It reads one entry more, which shows whether there is a next page. */
function resolveListAudit(options: ListAuditOptions): AuditQuery {
  onlyKeys('audit.list', options, ['action', 'actor', 'limit', 'cursor'])
  const { action, actor, limit = listAuditDefaults.limit, cursor } = options
  return {
    limit: whole('audit.limit', limit, { min: 1, max: 500 }) + 1,
    ...(action !== undefined && { action: text('audit.action', action) }),
    ...(actor !== undefined && { actor: text('audit.actor', actor) }),
    ...(cursor !== undefined && { before: text('audit.cursor', cursor) }),
  }
}

function checkTarget(target: AuditTarget): AuditTarget {
  const values = typeof target === 'object' && target !== null ? Object.values(target) : [null]
  const isPlain = values.every((value) => typeof value === 'string' || Number.isFinite(value))
  if (isPlain && JSON.stringify(target).length <= maxTargetChars) return { ...target }
  throw invalidArgument(
    `audit.target must be an object of texts and numbers, of ${maxTargetChars} characters at most, not ${show(target)}.`,
    'audit.target',
  )
}
