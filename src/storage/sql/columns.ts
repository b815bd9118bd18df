import type { ScalarType } from './statement.ts'

/**
 * The columns of a record: how statements select and declare them, and how rows are encoded and decoded. The column of
 * a field has the field's name in snake case, unless another name stands beside its type.
 *
 *     const token = columns<TokenRecord>({ id: 'text', createdAt: 'integer', group: ['text', 'time_slot'], nodes: 'json | null' })
 *     token.names                   'id, created_at, time_slot, nodes'
 *     rows.map(token.decode)        records; the driver may give numbers as text, and flags as numbers
 */
export interface Columns<Value> {
  /** Separated by commas. */
  readonly names: string
  /** The same names with a table's alias: `v.id, v.created_at`. */
  of(alias: string): string
  /** The columns as a batch of a statement declares them. */
  readonly types: Readonly<Record<string, ScalarType | `${ScalarType} | null`>>
  /** The row must have the columns that its statement selects; nothing checks it. */
  decode(row: unknown): Value
  /** The columns of a record. A field that the record does not have becomes null. */
  encode(value: Partial<Value>): Readonly<Record<string, string | number | boolean | null>>
}

type Plain<Type> = [Type] extends [string]
  ? 'text'
  : [Type] extends [number]
    ? 'integer'
    : [Type] extends [boolean]
      ? 'boolean'
      : 'json'
type TypeOf<Type> = null extends Type ? `${Plain<NonNullable<Type>>} | null` : Plain<Type>

/** The type of each field, and the name of its column if it differs. */
export type FieldTypes<Value> = {
  readonly [Field in keyof Value]-?: TypeOf<Value[Field]> | readonly [TypeOf<Value[Field]>, column: string]
}

type AnyType = 'text' | 'integer' | 'boolean' | 'json'

export function columns<Value extends object>(fields: FieldTypes<Value>): Columns<Value> {
  const all = Object.entries(fields as Record<string, string | readonly [string, string]>).map(
    ([field, given]) => {
      const [type, column] = typeof given === 'string' ? [given, toSnakeCase(field)] : given
      return {
        field,
        column,
        type: type.replace(' | null', '') as AnyType,
        isOptional: type.endsWith(' | null'),
      }
    },
  )
  const names = all.map(({ column }) => column)
  return {
    names: names.join(', '),
    of: (alias) => names.map((name) => `${alias}.${name}`).join(', '),
    types: Object.fromEntries(
      all.map(({ column, type, isOptional }) => {
        const scalar = type === 'json' ? 'text' : type
        return [column, isOptional ? (`${scalar} | null` as const) : scalar]
      }),
    ),
    decode(row) {
      const value: Record<string, unknown> = {}
      for (const { field, column, type } of all)
        value[field] = decodeValue((row as Readonly<Record<string, unknown>>)[column], type)
      return value as Value
    },
    encode(value) {
      const row: Record<string, string | number | boolean | null> = {}
      for (const { field, column, type } of all) {
        const given = (value as Readonly<Record<string, unknown>>)[field] ?? null
        row[column] =
          type === 'json' && given !== null
            ? JSON.stringify(given)
            : (given as string | number | boolean | null)
      }
      return row
    },
  }
}

function decodeValue(value: unknown, type: AnyType): unknown {
  if (value === null || value === undefined) return null
  if (type === 'integer') return Number(value)
  if (type === 'boolean') return Boolean(value)
  return type === 'json' ? JSON.parse(value as string) : value
}

function toSnakeCase(name: string): string {
  return name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)
}
