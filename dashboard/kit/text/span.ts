import type { Duration } from '../../../src/http/client/index.ts'

const units = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000],
] as const

/** A span as one writes it, in the largest unit that it is a whole number of. */
export function writeSpan(ms: number): string {
  const [unit, size] = units.find(([, one]) => ms >= one && ms % one === 0) ?? ['ms', 1]
  return `${ms / size}${unit}`
}

/** What was written, for the server to read: a bare number is milliseconds, as everywhere. */
export function spanOf(text: string): Duration {
  const span = text.trim()
  return /^\d+$/.test(span) ? Number(span) : (span as Duration)
}
