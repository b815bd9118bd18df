/**
 * The tables of the SQL engines are described once, and each engine renders them in its SQL. Columns are separated by
 * commas:
 *
 *     id name(64), priority int, error text?, attempt int = 0, [mariadb] room VARCHAR(80), due_at big as (…)
 *
 * A `name` is compared byte by byte; no statement searches or sorts by a `text`. The argument of both is MariaDB's
 * length: a number, `short` or `medium`. Without it a name has 191 characters, so that several fit into an index, and a
 * text has no limit. `enum` lists the allowed values. `?`: the column may be null. `= 0`: its default. A column after
 * `[mariadb]` exists only on that engine. Any other type is passed to the engine unchanged.
 */
export interface Table {
  readonly name: string
  readonly columns: string
  readonly key: string
  /** The primary key on engines where it differs. */
  readonly keyOn?: Readonly<Partial<Record<EngineName, string>>>
  /** One index per line: `name (columns) WHERE condition`, after optional `unique` or `[engines]`. */
  readonly indexes?: string
  /** The engines that have this table. @default all */
  readonly only?: readonly EngineName[]
  /**
   * The number by which SQLite finds rows, and with which its other indexes end: `rowid`, or a column of that name.
   * @default none: SQLite finds rows by the key and needs no second index for it
   */
  readonly sqliteNumber?: string
  /** How full Postgres writes pages, in percent. The rest is for new versions of the rows. */
  readonly fillfactor?: number
  /** The first rows, as a statement of the engine; `@name` is a table. */
  readonly rows?: Readonly<Partial<Record<EngineName, string>>>
}

export type EngineName = 'postgres' | 'mariadb' | 'sqlite'

/** The type of one column, as a table describes it. */
export interface ColumnType {
  readonly column: string
  readonly type: string
  readonly size: string | undefined
}

/** How an engine creates tables. */
export interface SchemaDialect {
  readonly engine: EngineName
  /** The prefix of a table's name. */
  readonly place: string
  /** Undefined: the type is not one of Signalbox's. */
  type(type: ColumnType): string | undefined
  generated(expression: string, isVirtual: boolean): string
  /** Quotes column names that are reserved words. */
  quote(columns: string): string
  /** The statements that create a table and its indexes. */
  create(table: Table, key: string, columns: readonly string[], indexes: readonly Index[]): readonly string[]
  createIndex(table: string, index: Index): string
}

export interface Index {
  readonly name: string
  readonly isUnique: boolean
  /** The columns in brackets, and a condition. */
  readonly over: string
}

/** The statements that create these tables, except tables that the engine does not have. */
export function createTables(d: SchemaDialect, tables: readonly Table[]): readonly string[] {
  return tables
    .filter(({ only }) => only?.includes(d.engine) ?? true)
    .flatMap((table) => {
      const columns = splitColumns(table.columns).flatMap((column) => createColumn(d, column))
      const key = d.quote(table.keyOn?.[d.engine] ?? table.key)
      const rows = table.rows?.[d.engine]
      return [
        ...d.create(table, key, columns, parseIndexes(d, table.indexes)),
        ...(rows === undefined ? [] : [rows.replaceAll('@', d.place)]),
      ]
    })
}

/** The statements that create indexes of an existing table, one per line. */
export function createIndexes(d: SchemaDialect, table: string, indexes: string): readonly string[] {
  return parseIndexes(d, indexes).map((index) => d.createIndex(table, index))
}

function parseIndexes(d: SchemaDialect, text = ''): readonly Index[] {
  const lines = text.split('\n').filter((line) => line.trim() !== '')
  return lines.flatMap((line) => {
    const [, engines, unique, name, over] = /^\s*(?:\[([\w ]+)\] )?(unique )?(\w+) (.+)$/.exec(line)!
    return isFor(d, engines) ? [{ name: name!, isUnique: unique !== undefined, over: over! }] : []
  })
}

function isFor(d: SchemaDialect, engines: string | undefined): boolean {
  return engines?.split(' ').includes(d.engine) ?? true
}

/** Commas inside brackets do not separate columns. */
function splitColumns(text: string): readonly string[] {
  const columns = ['']
  let depth = 0
  for (const char of text.replaceAll(/\n\s*/g, ' ')) {
    if (char === '(') depth++
    if (char === ')') depth--
    if (char === ',' && depth === 0) columns.push('')
    else columns[columns.length - 1] += char
  }
  return columns.map((column) => column.trim()).filter((column) => column !== '')
}

function createColumn(d: SchemaDialect, text: string): readonly string[] {
  const [, engines, column, rest] = /^(?:\[([\w ]+)\] )?(\w+) (.+)$/.exec(text)!
  if (!isFor(d, engines)) return []
  const name = d.quote(column!)
  const [, type, size, optional, how, value] =
    /^([a-z]+)(?:\(([^)]*)\))?(\?)?(?: (as virtual|as|(?:\[[\w ]+\] )?=) (.+))?$/.exec(rest!) ?? []
  const found = type === undefined ? undefined : d.type({ column: column!, type, size })
  if (found === undefined) return [`${name} ${rest}`]
  if (how?.startsWith('as')) return [`${name} ${found} ${d.generated(value!, how === 'as virtual')}`]
  const [, defaultFor] = /^\[([\w ]+)\]/.exec(how ?? '') ?? []
  const defaulted = how !== undefined && isFor(d, defaultFor) ? ` DEFAULT ${value}` : ''
  return [`${name} ${found}${optional ? '' : ' NOT NULL'}${defaulted}`]
}

/** `a|b` as an SQL list of texts. */
export function listTexts(choices: string): string {
  return `(${choices
    .split('|')
    .map((choice) => `'${choice}'`)
    .join(', ')})`
}
