import type { Page } from './jobs.ts'
import { nameOptions, type Schema, schemaFor, strict, Type } from './schema.ts'

/** What routes of several rooms have in common: pages of a list, and one thing by its id. */

/** A page of such items. */
export function pageOf<Item>(item: Schema<Item>): Schema<Page<Item>> {
  const cursor = Type.Union([Type.String(), Type.Null()])
  return Type.Object({ items: Type.Array(item), cursor }) as Schema<Page<Item>>
}

export interface IdParams {
  readonly id: string
}
export const idParams: Schema<IdParams> = schemaFor<IdParams>()(
  Type.Object({ id: Type.String(nameOptions) }, strict),
)
