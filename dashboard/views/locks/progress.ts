/** What a holder told of its progress, as far as it can be drawn. */
export interface Progress {
  /** 0 to 1; null: it cannot be drawn. */
  readonly share: number | null
  /** Its words; null: the share says it all. */
  readonly note: string | null
}

const noteNames = ['note', 'message', 'step', 'phase', 'status'] as const
const noteChars = 200

/**
 * Progress is any JSON value: a number or `percent` from 0 to 100, `done` of `total`, or a text. Any other value is
 * shown as JSON.
 */
export function readProgress(value: unknown): Progress | null {
  if (value === null || value === undefined) return null
  if (typeof value === 'number') return { share: shareOf(value, 100), note: null }
  if (typeof value === 'string') return { share: null, note: cut(value) }
  if (typeof value !== 'object' || Array.isArray(value)) return { share: null, note: cut(written(value)) }
  const { percent, done, total } = value as Readonly<Record<string, unknown>>
  const share = shareOf(percent, 100) ?? shareOf(done, total)
  const note = noteNames
    .map((name) => (value as Readonly<Record<string, unknown>>)[name])
    .find((one) => typeof one === 'string')
  if (typeof note === 'string') return { share, note: cut(note) }
  return { share, note: share === null ? cut(written(value)) : null }
}

function shareOf(part: unknown, whole: unknown): number | null {
  if (typeof part !== 'number' || typeof whole !== 'number' || whole <= 0) return null
  return Math.min(1, Math.max(0, part / whole))
}

/** In one line. */
function written(value: unknown): string {
  return JSON.stringify(value) ?? ''
}

function cut(text: string): string {
  return text.length <= noteChars ? text : `${text.slice(0, noteChars)}…`
}
