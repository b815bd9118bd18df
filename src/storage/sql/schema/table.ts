/**
 * The tables of the SQL engines are described once, and each engine writes them in its words. Columns are apart by commas:
 *
 *     id name(64), priority int, error text?, attempt int = 0, [mariadb] room VARCHAR(80), due_at big as (…)
 *
 * `name` is compared byte by byte; `text` is neither searched nor sorted by. Both take MariaDB's length: a number, `short`
 * or `medium`; without one a name has 191 characters, so that several fit into an index, and a text has no limit. `enum`
 * lists what is allowed. `?`: it may be null. `= 0`: its default. What stands behind `[mariadb]` is of that engine alone; a
 * type that is none of these is written as it stands.
 */
export interface Table {
  readonly name: string
  readonly columns: string
  readonly key: string
  /** Where an engine has another key. */
  readonly keyOn?: Readonly<Partial<Record<EngineName, string>>>
  /** One a line: `name (columns) WHERE condition`, with `unique` or engines in front. */
  readonly indexes?: string
  /** Other engines have no such table. */
  readonly only?: readonly EngineName[]
  /**
   * The number by which SQLite finds rows, and in which its other indexes end: `rowid`, or a column of that name. @default
   * none: rows are found by the key alone, and need no second index for it
   */
  readonly sqliteNumber?: string
  /** How full Postgres writes pages, in percent: the rest is for new versions of their rows. */
  readonly fillfactor?: number
  /** The first rows, by a statement of the engine; `@name` is a table. */
  readonly rows?: Readonly<Partial<Record<EngineName, string>>>
}

export type EngineName = 'postgres' | 'mariadb' | 'sqlite'

/** One column's type, as a table says it. */
export interface ColumnType {
  readonly column: string
  readonly type: string
  readonly size: string | undefined
}

/** The words in which an engine makes tables. */
export interface SchemaDialect {
  readonly engine: EngineName
  /** What stands in front of a table's name. */
  readonly place: string
  /** Undefined: it is no type of ours. */
  type(type: ColumnType): string | undefined
  generated(expression: string, isVirtual: boolean): string
  /** Quotes those of the columns that are reserved words. */
  quote(columns: string): string
  /** Makes a table and its indexes. */
  create(table: Table, key: string, columns: readonly string[], indexes: readonly Index[]): readonly string[]
  createIndex(table: string, index: Index): string
}

export interface Index {
  readonly name: string
  readonly isUnique: boolean
  /** The columns, in brackets, and a condition. */
  readonly over: string
}

/** The statements that make these tables, where the engine has them. */
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

/** The statements that make indexes of a table that is there; a line each. */
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

/** Commas inside brackets are not between columns. */
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

/** `a|b` as SQL's list of texts. */
export function listTexts(choices: string): string {
  return `(${choices
    .split('|')
    .map((choice) => `'${choice}'`)
    .join(', ')})`
}
