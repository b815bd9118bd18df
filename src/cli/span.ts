import { duration, type Range } from '../core/options.ts'

/** A span as a flag gives it: text such as '30s', or digits, which are milliseconds, as they are in every setting. */
export function spanOf(flag: string, given: string, range?: Range): number
export function spanOf(flag: string, given: string | undefined, range?: Range): number | undefined
export function spanOf(flag: string, given: string | undefined, range?: Range): number | undefined {
  return given === undefined ? undefined : duration(flag, numberOr(given), range)
}

/** The number that digits are; what is none is left as it came, to be refused by whoever knows what is allowed. */
export function numberOr(given: string): string | number {
  return /^\d{1,15}$/.test(given) ? Number(given) : given
}

const units = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['min', 60_000],
  ['s', 1_000],
] as const

/** A span for people, exact, in the largest unit that needs no fraction: `10 min`, `90 s`. */
export function spanText(ms: number): string {
  const [unit, size] = units.find(([, size]) => ms >= size && ms % size === 0) ?? ['ms', 1]
  return `${ms / size} ${unit}`
}
