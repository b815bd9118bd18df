/** Whether two values as JSON has them say the same; the order of an object's keys makes no difference. Makes no garbage. */
export function isSameJson(a: unknown, b: unknown): boolean {
  if (a === b) return true
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return false
  if (Array.isArray(a) || Array.isArray(b)) return isSameList(a, b)
  const ones = a as Readonly<Record<string, unknown>>
  const others = b as Readonly<Record<string, unknown>>
  let more = 0
  for (const key in ones) {
    if (!Object.hasOwn(others, key) || !isSameJson(ones[key], others[key])) return false
    more += 1
  }
  for (const _ in others) more -= 1
  return more === 0
}

function isSameList(a: object, b: object): boolean {
  if (!Array.isArray(a) || !Array.isArray(b) || a.length !== b.length) return false
  for (let at = 0; at < a.length; at += 1) if (!isSameJson(a[at], b[at])) return false
  return true
}
