import type {
  AuditEntry,
  AuditOutcome,
  AuditQuery,
  AuditStore,
  AuditTarget,
  NewAuditEntry,
} from '../../audit/index.ts'
import type { Database } from './database.ts'
import { count, last, many, one, operation, run } from './procedure.ts'
import { statement } from './statement.ts'

/** What operators did in one namespace. */
export function createAuditStore(database: Database, namespace: string): AuditStore {
  return {
    write: (entries) => database.run(writeEntries, [namespace, entries]),
    list: (query) => database.run(listEntries, [namespace, query]),
    prune: (request) => database.run(pruneEntries, [namespace, request]),
  }
}

const columns = 'id, at, actor, actor_name, action, target, outcome, code'

const insert = statement(
  'audit_write',
  {
    namespace: 'text',
    rows: {
      id: 'text',
      actor: 'text',
      actor_name: 'text | null',
      action: 'text',
      target: 'text',
      outcome: 'text',
      code: 'text | null',
    },
  },
  (d) => `
INSERT INTO @audit_entry (namespace, ${columns})
SELECT :namespace, v.id, ${d.now}, v.actor, v.actor_name, v.action, v.target, v.outcome, v.code FROM :rows WHERE 1 = 1
${d.keepExisting('namespace, id')}`,
)

const writeEntries = operation({
  name: 'write audit entries',
  *procedure(namespace: string, entries: readonly NewAuditEntry[]) {
    if (entries.length === 0) return
    const rows = entries.map(({ id, actor, action, target, outcome, code }) => ({
      ...{ id, actor: actor.id, actor_name: actor.name, action, outcome, code },
      target: JSON.stringify(target),
    }))
    yield* last(run(insert({ namespace, rows })))
  },
})

const select = statement(
  'audit_list',
  { namespace: 'text', 'before?': 'text', 'action?': 'text', 'actor?': 'text', limit: 'integer' },
  () => `
SELECT ${columns} FROM @audit_entry
WHERE namespace = :namespace {AND id < :before} {AND action = :action} {AND actor = :actor}
ORDER BY id DESC LIMIT :limit`,
)

const listEntries = operation({
  name: 'list audit entries',
  isRead: true,
  *procedure(namespace: string, { before, action, actor, limit }: AuditQuery) {
    const rows = yield* many<AuditRow>(select({ namespace, before, action, actor, limit }))
    return rows.map(decodeRow)
  },
})

const isOld = statement(
  'audit_is_old',
  { namespace: 'text', olderThanMs: 'integer' },
  (d) => `SELECT 1 FROM @audit_entry WHERE namespace = :namespace AND at < ${d.now} - :olderThanMs LIMIT 1`,
)

const deleteOld = statement(
  'audit_prune',
  { namespace: 'text', olderThanMs: 'integer', limit: 'integer' },
  (d) =>
    d.deleteFirst({
      from: '@audit_entry',
      key: 'namespace, id',
      where: `namespace = :namespace AND at < ${d.now} - :olderThanMs`,
      orderBy: 'at',
      limit: ':limit',
    }),
)

interface Age {
  readonly olderThanMs: number
  readonly limit: number
}

const pruneEntries = operation({
  name: 'prune audit entries',
  *procedure(namespace: string, { olderThanMs, limit }: Age) {
    return yield* last(count(deleteOld({ namespace, olderThanMs, limit })))
  },
  upkeep: {
    *isNeeded(namespace: string, { olderThanMs }: Age) {
      return (yield* one(isOld({ namespace, olderThanMs }))) !== undefined
    },
    otherwise: 0,
  },
})

/** Drivers give whole numbers as numbers or as text. */
interface AuditRow {
  readonly id: string
  readonly at: number | string
  readonly actor: string
  readonly actor_name: string | null
  readonly action: string
  readonly target: string
  readonly outcome: string
  readonly code: string | null
}

function decodeRow(row: AuditRow): AuditEntry {
  return {
    id: row.id,
    at: Number(row.at),
    actor: { id: row.actor, name: row.actor_name },
    action: row.action,
    target: JSON.parse(row.target) as AuditTarget,
    outcome: row.outcome as AuditOutcome,
    code: row.code,
  }
}
