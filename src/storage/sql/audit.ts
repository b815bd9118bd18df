import type { AuditEntry, AuditQuery, AuditStore, NewAuditEntry } from '../../audit/index.ts'
import { columns } from './columns.ts'
import type { Database } from './database.ts'
import { pruneOld, readAll } from './operations.ts'
import { last, operation, run } from './procedure.ts'
import { statement } from './statement.ts'

/** The actions of operators in one namespace. */
export function createAuditStore(database: Database, namespace: string): AuditStore {
  return {
    write: (entries) => database.run(writeEntries, [namespace, entries]),
    list: (query) => database.run(listEntries, [namespace, query]),
    prune: (request) => database.run(pruneEntries, [namespace, request]),
  }
}

interface StoredEntry extends Omit<AuditEntry, 'actor'> {
  readonly actor: string
  readonly actorName: string | null
}

const stored = columns<StoredEntry>({
  ...{ id: 'text', at: 'integer', actor: 'text', actorName: 'text | null', action: 'text', target: 'json' },
  ...{ outcome: 'text', code: 'text | null' },
})

const insert = statement(
  'audit_write',
  {
    namespace: 'text',
    rows: {
      ...{
        id: 'text',
        actor: 'text',
        actor_name: 'text | null',
        action: 'text',
        target: 'text',
        outcome: 'text',
      },
      code: 'text | null',
    },
  },
  (d) => `
INSERT INTO @audit_entry (namespace, ${stored.names})
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
SELECT ${stored.names} FROM @audit_entry
WHERE namespace = :namespace {AND id < :before} {AND action = :action} {AND actor = :actor}
ORDER BY id DESC LIMIT :limit`,
)

const listEntries = readAll(
  'list audit entries',
  (namespace: string, { before, action, actor, limit }: AuditQuery) =>
    select({ namespace, before, action, actor, limit }),
  (row): AuditEntry => {
    const { id, at, actor, actorName, ...entry } = stored.decode(row)
    return { id, at, actor: { id: actor, name: actorName }, ...entry }
  },
)

const pruneEntries = pruneOld('prune audit entries', {
  ...{ statements: 'audit', table: 'audit_entry', key: 'id', at: 'at' },
})
