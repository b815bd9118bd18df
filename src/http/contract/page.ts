import type { TInteger, TOptional, TString } from 'typebox'
import { type Schema, schemaFor, strict, Type } from './schema.ts'
import { name } from './values.ts'

/** What routes of several modules have in common: pages of a list, and one thing by its id. */

/** A page of a list; `cursor` is null at the end. */
export interface Page<Item> {
  readonly items: readonly Item[]
  readonly cursor: string | null
}

/** How many items of a list, and from where on; `cursorChars` is as much as its cursors may have. */
export function pageQuery(cursorChars: number): PageQuery {
  return {
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 500, default: 50 })),
    cursor: Type.Optional(Type.String({ minLength: 1, maxLength: cursorChars, pattern: '^[\\w-]+$' })),
  }
}

interface PageQuery {
  readonly limit: TOptional<TInteger>
  readonly cursor: TOptional<TString>
}

/** A page of such items. */
export function pageOf<Item>(item: Schema<Item>): Schema<Page<Item>> {
  const cursor = Type.Union([Type.String(), Type.Null()])
  return Type.Object({ items: Type.Array(item), cursor }) as Schema<Page<Item>>
}

export interface IdParams {
  readonly id: string
}
export const idParams: Schema<IdParams> = schemaFor<IdParams>()(Type.Object({ id: name }, strict))
