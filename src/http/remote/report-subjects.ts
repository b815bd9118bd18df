import { isSignalboxError } from '../../core/errors.ts'
import { encodeJson } from '../../core/json.ts'
import type { FailedSubject } from '../../monitor/index.ts'

/**
 * Splits the subjects of a report into those that can be sent and those that cannot. A state that JSON would bend, or that
 * is too large for any store, fails here as it would there. A subject that failed once is not sent at all. `list` and
 * `field` are the words of the report's form.
 */
export function sortSubjects<Item extends { readonly state: unknown }>(
  items: readonly Item[],
  list: string,
  field: keyof Item & ('subject' | 'venueId'),
): { readonly sendable: readonly Item[]; readonly failed: readonly FailedSubject[] } {
  // The server refuses what is no list at all.
  if (!Array.isArray(items)) return { sendable: items, failed: [] }
  const failed = new Map<unknown, FailedSubject>()
  for (const [index, item] of items.entries()) {
    try {
      encodeJson(`${list}[${index}].state`, item?.state)
    } catch (error) {
      const name: unknown = item?.[field]
      if (!isSignalboxError(error) || typeof name !== 'string') throw error
      const { code, message } = error
      failed.set(name, { [field]: name, error: { code, message } })
    }
  }
  const sendable = failed.size === 0 ? items : items.filter((item) => !failed.has(item?.[field]))
  return { sendable, failed: [...failed.values()] }
}
