/**
 * What the limits of a queue count a job by: `limitKey` in the words about it. Words that nobody can read, or a key that
 * is empty or no text, are as good as none.
 */
export function limitKeyOf(meta: string | null): string | null {
  if (meta === null) return null
  try {
    const { limitKey } = JSON.parse(meta) as { readonly limitKey?: unknown }
    return typeof limitKey === 'string' && limitKey !== '' ? limitKey : null
  } catch {
    return null
  }
}
