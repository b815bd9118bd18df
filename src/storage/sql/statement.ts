import type { Dialect } from './dialect.ts'

/**
 * A statement that all SQL engines run: SQL text, compiled once for each dialect and bound on each call.
 *
 *     const find = statement('audit_list', { namespace: 'text', 'before?': 'text', limit: 'integer' },
 *       () => `SELECT * FROM @audit_entry WHERE namespace = :namespace {AND id < :before} ORDER BY id DESC LIMIT :limit`)
 *     find({ namespace, before, limit })
 *
 * - `:name` is a value. Its type is declared: the engines cast it, and TypeScript checks the bound value.
 * - `@name` is one of Signalbox's tables, qualified where the engine needs it.
 * - `{…}` is an optional part: it is used only if its `'name?'` is bound. Each combination of parts is a separate
 *   statement, so each uses the index that fits.
 * - `IN (:ids)` takes a list (`'text[]'`). An empty list matches no row.
 * - `FROM :rows` is a batch: `rows: { id: 'text', … }`. Its columns are `v.id`, … A text without `:rows` runs once for
 *   each row.
 * - The dialect supplies what differs between engines: (d) => `… WHERE expires_at <= ${d.now} …`.
 *
 * Every statement registers itself, so the test of query plans covers all of them.
 */
export interface Statement<Params = never> {
  (params: Params): Bound
  readonly definition: Definition
}

/** A statement and the values of one call. */
export interface Bound {
  readonly definition: Definition
  readonly params: Readonly<Record<string, unknown>>
}

export interface Definition {
  readonly name: string
  readonly declared: Declared
  /** The values that may be left unbound. Their optional part is then left out. */
  readonly optional: readonly string[]
  /** True: SQLite does not run it, because SQLite stores these rows differently. */
  readonly isForServers: boolean
  text(dialect: Dialect): string
}

interface Scalars {
  readonly text: string
  /** A whole number of up to 53 bits. */
  readonly integer: number
  readonly number: number
  readonly boolean: boolean
}

export type ScalarType = keyof Scalars
type ColumnType = ScalarType | `${ScalarType} | null`
type Columns = Readonly<Record<string, ColumnType>>
export type Declared = Readonly<Record<string, ColumnType | `${ScalarType}[]` | Columns>>

type ValueOf<Type> = Type extends ScalarType
  ? Scalars[Type]
  : Type extends `${infer Scalar extends ScalarType} | null`
    ? Scalars[Scalar] | null
    : Type extends `${infer Scalar extends ScalarType}[]`
      ? readonly Scalars[Scalar][]
      : Type extends Columns
        ? readonly ValuesOf<Type>[]
        : never

/** The values of declared columns. */
export type ValuesOf<Type extends Columns> = { readonly [Name in keyof Type]: ValueOf<Type[Name]> }

type ParamsOf<Types> = {
  readonly [Name in keyof Types as Name extends `${string}?` ? never : Name]: ValueOf<Types[Name]>
} & {
  readonly [Name in keyof Types as Name extends `${infer Bare}?` ? Bare : never]?:
    | ValueOf<Types[Name]>
    | undefined
}

const definitions = new Map<string, Definition>()

/** All statements of the imported stores. */
export function listStatements(): readonly Definition[] {
  return [...definitions.values()]
}

export function statement<const Types extends Declared>(
  name: string,
  types: Types,
  text: (dialect: Dialect) => string,
  { isForServers = false }: { readonly isForServers?: boolean } = {},
): Statement<ParamsOf<Types>> {
  const optional = Object.keys(types).flatMap((key) => (key.endsWith('?') ? [key.slice(0, -1)] : []))
  const declared = Object.fromEntries(
    Object.entries(types).map(([key, type]) => [key.replace(/\?$/, ''), type]),
  )
  const definition: Definition = { name, declared, optional, isForServers, text }
  if (definitions.has(name)) throw new Error(`There are two statements with the name "${name}".`)
  definitions.set(name, definition)
  const bind = (params: ParamsOf<Types>): Bound => ({ definition, params })
  return Object.assign(bind, { definition })
}

/** A statement that SQLite does not run, because SQLite stores these rows differently. */
export const serverStatement: typeof statement = (name, types, text) =>
  statement(name, types, text, { isForServers: true })

/** The source of a bound value. */
export interface Slot {
  readonly from: 'params' | 'row' | 'clock'
  readonly name: string
  readonly type: string
  /** For a batch that is bound as a whole: its columns. */
  readonly columns?: readonly string[]
}

/** A statement compiled for one engine. */
export interface Compiled {
  readonly name: string
  readonly text: string
  readonly slots: readonly Slot[]
  /** Whether the engine runs it once for each row of its batch. */
  readonly isPerRow: boolean
  /** True: it returns rows, as SELECT and RETURNING do. False: it returns only their number. */
  readonly givesRows: boolean
}

/** Compiles each statement once for one dialect. */
export class Compiler {
  readonly #dialect: Dialect
  readonly #known = new Map<Definition, (Compiled | undefined)[]>()

  constructor(dialect: Dialect) {
    this.#dialect = dialect
  }

  compile({ definition, params }: Bound): Compiled {
    let shape = 0
    const { optional } = definition
    for (let nr = 0; nr < optional.length; nr++) if (params[optional[nr]!] !== undefined) shape |= 1 << nr
    let shapes = this.#known.get(definition)
    if (shapes === undefined) {
      shapes = []
      this.#known.set(definition, shapes)
    }
    const compiled = shapes[shape] ?? compile(definition, this.#dialect, shape)
    shapes[shape] = compiled
    return compiled
  }
}

/** `shape` has one bit for each optional value: set if it is bound. */
function compile(definition: Definition, dialect: Dialect, shape: number): Compiled {
  const { declared, optional } = definition
  const isLeftOut = (name: string) => optional.includes(name) && (shape & (1 << optional.indexOf(name))) === 0
  const slots: Slot[] = []
  const place = (slot: Slot): number => {
    const at = slots.findIndex(({ from, name }) => from === slot.from && name === slot.name)
    if (at >= 0 && !dialect.isPositional) return at + 1
    return slots.push(slot)
  }
  const value = (name: string): string => {
    if (name === 'now' || name === 'micros')
      return dialect.placeholder(place({ from: 'clock', name, type: 'integer' }), 'integer')
    const type = declared[name]
    if (typeof type !== 'string')
      throw new Error(`Statement "${definition.name}" declares no value "${name}".`)
    const bare = type.replace(' | null', '')
    return dialect.placeholder(place({ from: 'params', name, type: bare }), bare)
  }
  const batch = (name: string): string => {
    const columns = Object.entries(declared[name] as Columns).map(([column, type]) => ({
      name: column,
      type: type.replace(' | null', '') as ScalarType,
    }))
    return dialect.batch(name, columns, place)
  }
  const isBatch = (name: string) => typeof declared[name] === 'object'
  const source = definition.text(dialect)
  const isRead = (name: string) => new RegExp(`:${name}\\b`).test(source)
  const isPerRow = Object.keys(declared).some(
    (name) => isBatch(name) && (dialect.runsBatchesByRow || !isRead(name)),
  )
  const text = source
    .replaceAll(/\{([^{}]*)\}/g, (_, part: string) =>
      [...part.matchAll(valuePattern)].some(([, name]) => isLeftOut(name!)) ? '' : part,
    )
    .replaceAll(/@([a-z_]+)/g, (_, table: string) => dialect.table(table))
    .replaceAll(
      tokenPattern,
      (whole: string, list?: string, limit?: string, name?: string, column?: string) => {
        if (list !== undefined) return dialect.inList(value(list))
        if (limit !== undefined) return `LIMIT ${dialect.limit(value(limit))}`
        if (name !== undefined) return isBatch(name) ? batch(name) : value(name)
        if (!isPerRow) return whole
        return dialect.placeholder(place({ from: 'row', name: column!, type: '' }), '')
      },
    )
    .trim()
  const givesRows = /^\(?\s*(?:SELECT|WITH)\b|\bRETURNING\b/.test(text)
  const name = optional.length === 0 ? definition.name : `${definition.name}_${shape}`
  return { name, text, slots, isPerRow, givesRows }
}

const valuePattern = /(?<![:\w]):([a-zA-Z]\w*)/g
const tokenPattern =
  /\bIN \(:([a-zA-Z]\w*)\)|\bLIMIT :([a-zA-Z]\w*)|(?<![:\w]):([a-zA-Z]\w*)|\bv\.([a-z_]\w*)/g
