import type { LogLevel, logLimits as moduleLimits, NewLogLine } from '../../jobs/logs/log-store.ts'

/** The same numbers as the service's, which the compiler sees to. */
export const logLimits: typeof moduleLimits = { maxLines: 500, maxLineBytes: 65_536 }
const { maxLines, maxLineBytes } = logLimits

/**
 * When a job is begun anew its attempts count from 1 again, and say what they have to say behind what the earlier ones of
 * the same number said. One that used more than this is forgotten then, or there would be no room for them.
 */
export const keptForRetry: Readonly<Record<'lineCount' | 'lineBytes', number>> = {
  lineCount: maxLines / 2,
  lineBytes: maxLineBytes / 2,
}

/** How much one attempt has said so far. */
export interface SaidSoFar {
  /** Lines that were kept, and their bytes together. */
  readonly lineCount: number
  readonly lineBytes: number
  readonly droppedCount: number
}

/** A line with its place among those of its attempt. */
export interface PlacedLine {
  readonly number: number
  readonly level: LogLevel
  readonly text: string
}

/**
 * What becomes of new lines of an attempt. From the first that does not fit on, all are dropped: a gap in the middle would
 * look like something that never was. The one line behind those kept says how many; it is written over when there are more.
 */
export function placeLines(
  said: SaidSoFar,
  lines: readonly NewLogLine[],
): { readonly said: SaidSoFar; readonly kept: readonly PlacedLine[]; readonly dropped: PlacedLine | null } {
  let { lineCount, lineBytes, droppedCount } = said
  const kept: PlacedLine[] = []
  for (const { level, text } of lines) {
    const bytes = Buffer.byteLength(text)
    if (droppedCount > 0 || lineCount >= maxLines || lineBytes + bytes > maxLineBytes) {
      droppedCount++
      continue
    }
    lineCount++
    lineBytes += bytes
    kept.push({ number: lineCount, level, text })
  }
  const hasMore = droppedCount > said.droppedCount
  const dropped = hasMore
    ? { number: lineCount + 1, level: 'warn' as const, text: droppedText(droppedCount) }
    : null
  return { said: { lineCount, lineBytes, droppedCount }, kept, dropped }
}

/** What the line behind those kept says. */
export function droppedText(count: number): string {
  const what = count === 1 ? '1 line was' : `${count} lines were`
  return `${what} dropped: an attempt keeps up to ${maxLines} lines and ${maxLineBytes} bytes.`
}
