import { encodeJson } from '../../core/json.ts'
import type { LogLevel, NewLogLine } from './log-store.ts'

/** How far a handler says it is: a number from 0 to 100, or more words about it. What is left out stays as it was. */
export type ProgressUpdate =
  | number
  | {
      readonly percent?: number | undefined
      readonly note?: string | undefined
      /** Any JSON value of up to 16 KiB. */
      readonly data?: unknown
    }

/** How far an attempt is, as it last said. */
export interface JobProgress {
  readonly percent: number | null
  readonly note: string | null
  readonly data: unknown
  /** When it said so, by the store's clock. */
  readonly at: number
  /** Which attempt said so. */
  readonly attempt: number
}

/** What an attempt has said of itself so far. */
export interface SaidProgress {
  readonly percent: number | null
  readonly note: string | null
  /** JSON text, or null. */
  readonly data: string | null
}

export const progressLimits = { maxNoteChars: 500, maxDataChars: 16_384, maxLineChars: 4_096 } as const

const nothing: SaidProgress = { percent: null, note: null, data: null }

/** What is known after an update. Whatever is not as it should be is left out: saying how far one is must never fail. */
export function mergeProgress(before: SaidProgress | undefined, update: unknown): SaidProgress {
  const { percent, note, data } = fieldsOf(update)
  const { maxNoteChars } = progressLimits
  const known = before ?? nothing
  return {
    percent:
      typeof percent === 'number' && !Number.isNaN(percent)
        ? Math.min(100, Math.max(0, percent))
        : known.percent,
    note: note === undefined ? known.note : note === null ? null : soundText(note, maxNoteChars),
    data: data === undefined ? known.data : encodeData(data),
  }
}

export function encodeProgress({ percent, note, data }: SaidProgress): string {
  const plain = JSON.stringify({ percent, note })
  return data === null ? plain : `${plain.slice(0, -1)},"data":${data}}`
}

/** As it is shown. Never throws: a row that was damaged says nothing. */
export function decodeProgress(kept: string): Omit<JobProgress, 'at' | 'attempt'> {
  let said: Partial<JobProgress> = {}
  try {
    said = (JSON.parse(kept) as Partial<JobProgress> | null) ?? {}
  } catch {
    // Nothing, then.
  }
  const { percent = null, note = null, data = null } = said
  return {
    percent: typeof percent === 'number' ? percent : null,
    note: typeof note === 'string' ? note : null,
    data,
  }
}

const levels: readonly unknown[] = ['info', 'warn', 'error'] satisfies readonly LogLevel[]

/** A line as it is kept: whatever was given, as text that every store takes. */
export function makeLogLine(text: unknown, level: unknown = 'info'): NewLogLine {
  return {
    level: levels.includes(level) ? (level as LogLevel) : 'info',
    text: soundText(text, progressLimits.maxLineChars),
  }
}

function fieldsOf(update: unknown): { percent?: unknown; note?: unknown; data?: unknown } {
  if (typeof update === 'number') return { percent: update }
  if (typeof update !== 'object' || update === null) return {}
  try {
    const { percent, note, data } = update as { percent?: unknown; note?: unknown; data?: unknown }
    return { percent, note, data }
  } catch {
    return {}
  }
}

function encodeData(data: unknown): string | null {
  try {
    const encoded = encodeJson('progress.data', data)
    return encoded.length > progressLimits.maxDataChars ? null : encoded
  } catch {
    return null
  }
}

/** No null characters and no broken surrogates, which not every store takes; cut off where it is too long. */
function soundText(value: unknown, maxChars: number): string {
  let text: string
  try {
    text = typeof value === 'string' ? value : String(value)
  } catch {
    text = 'something that cannot be written as text'
  }
  const cut = text.length > maxChars ? `${text.slice(0, maxChars - 1)}…` : text
  return cut.toWellFormed().replaceAll('\0', '\ufffd')
}
