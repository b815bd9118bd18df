import type { Migration } from '../migration-plan.ts'
import { createMigrations } from '../sql/schema/migrations.ts'
import { type Index, listTexts, type SchemaDialect } from '../sql/schema/table.ts'

/** Names and texts are not padded and are compared byte by byte, so 'Key', 'key' and 'Key ' are three keys. */
const options = 'ENGINE = InnoDB CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin'

const plainTypes: Readonly<Record<string, string>> = { int: 'INT', big: 'BIGINT', bool: 'BOOLEAN' }
const longTexts: Readonly<Record<string, string>> = { short: 'TEXT', medium: 'MEDIUMTEXT' }
const reserved = /\b(key|release)\b/g
const quote = (names: string) => names.replaceAll(reserved, '`$1`')

const dialect: SchemaDialect = {
  engine: 'mariadb',
  place: '',
  type({ type, size }) {
    if (type === 'enum') return `ENUM ${listTexts(size!)}`
    if (type === 'name') return `VARCHAR(${size ?? 191})`
    if (type !== 'text') return plainTypes[type]
    return size === undefined ? 'LONGTEXT' : (longTexts[size] ?? `VARCHAR(${size})`)
  },
  generated: (expression) => `AS ${expression} PERSISTENT`,
  quote,
  create({ name }, key, columns, indexes) {
    const parts = [...columns, `PRIMARY KEY (${key})`, ...indexes.map(keyOf)].join(',\n  ')
    return [`CREATE TABLE IF NOT EXISTS ${name} (\n  ${parts}\n) ${options}`]
  },
  createIndex: (table, { name, over }) => `CREATE INDEX IF NOT EXISTS ${name} ON ${table} ${over}`,
}

function keyOf({ name, isUnique, over }: Index): string {
  return `${isUnique ? 'UNIQUE ' : ''}KEY ${name} ${over}`
}

/** MariaDB needs no extra indexes to count jobs. */
export const migrations: readonly Migration[] = createMigrations(dialect)
