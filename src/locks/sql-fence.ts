import { invalidArgument } from '../core/errors.ts'
import { oneOf, onlyKeys, show } from '../core/options.ts'

/**
 * The fence in the guarded database. A lease alone cannot stop a holder that was frozen past its lease and still believes
 * that it holds the lock. So each write carries the holder's token, and the row keeps the greatest token:
 *
 *     a writes with 33 ──▶ accepted, the row has 33
 *     a is frozen; b gets the lock and writes with 34 ──▶ accepted, the row has 34
 *     a wakes up and writes with 33 ──▶ no row changed: the write is refused
 *
 * This is one conditional statement for a table of yours with a column for the token, so it is safe at every isolation
 * level. If it changes no row, the lock was lost. The row must exist.
 */
export interface SqlFence {
  /**
   * Sets columns of the row with this key, if its token is not greater. Parameters: the values in the order of
   * `columns`, the token, the key, and the token again.
   */
  update(columns: readonly string[]): string
  /** The parameters of `update`. */
  updateParameters<Value, Key>(
    values: readonly Value[],
    key: Key,
    token: number,
  ): readonly (Value | Key | number)[]
}

/** A table that keeps the token of its last write beside the row. */
export interface SqlFenceTable {
  readonly table: string
  /** The column of its primary key. @default 'id' */
  readonly key?: string | undefined
  /** The column of the greatest token so far: a BIGINT, not null, 0 at first. @default 'fence' */
  readonly fence?: string | undefined
}

export interface SqlFenceOptions extends SqlFenceTable {
  readonly dialect: (typeof dialects)[number]
}

const dialects = ['sqlite', 'postgres', 'mariadb'] as const

/**
 * The statement for one table.
 *
 *     const fence = sqlFence({ dialect: 'postgres', table: 'images' })
 *     const { rowCount } = await pg.query(fence.update(['digest']), fence.updateParameters([digest], 'app:1.2', held.token))
 *     if (rowCount === 0) throw new Error('another holds the lock now')
 */
export function sqlFence(options: SqlFenceOptions): SqlFence {
  onlyKeys('sqlFence', options, ['dialect', 'table', 'key', 'fence'])
  const dialect = oneOf('sqlFence.dialect', options.dialect, dialects)
  const quote = (name: string, value: unknown) => quoted(name, value, dialect === 'mariadb' ? '`' : '"')
  const table = quote('table', options.table)
  const key = quote('key', options.key ?? 'id')
  const fence = quote('fence', options.fence ?? 'fence')
  const columnsOf = (columns: readonly string[]) =>
    columns.map((column, nth) => quote(`columns[${nth}]`, column))
  const mark = dialect === 'postgres' ? (nth: number) => `$${nth}` : () => '?'

  return {
    update(columns) {
      const names = columnsOf(columns)
      const sets = names.map((name, nth) => `${name} = ${mark(nth + 1)}`)
      const [token, own, least] = [names.length + 1, names.length + 2, names.length + 3].map(mark)
      return `UPDATE ${table} SET ${[...sets, `${fence} = ${token}`].join(', ')} WHERE ${key} = ${own} AND ${fence} <= ${least}`
    },
    updateParameters: (values, own, token) => [...values, token, own, token],
  }
}

function quoted(name: string, value: unknown, mark: string): string {
  if (typeof value === 'string' && value !== '' && !value.includes('\0')) {
    return mark + value.replaceAll(mark, mark + mark) + mark
  }
  throw invalidArgument(`sqlFence.${name} must be a name, not ${show(value)}.`)
}
