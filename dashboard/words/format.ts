import { type Language, localeOf } from './catalogue.ts'

/** Numbers, spans and instants as people read them. */
export interface Format {
  number(value: number): string
  /** Short where it is large: 12.3K, 1.2万. */
  compact(value: number): string
  percent(share: number): string
  bytes(count: number): string
  /** `850 ms`, `12 s`, `3 min 5 s`, `2 h 10 min`. */
  span(ms: number): string
  /** `3 minutes ago`, `in 2 hours`. */
  relative(at: number, now: number): string
  /** To the second, in the reader's own zone, with the zone. */
  instant(at: number): string
  /** Hours, minutes and seconds. */
  clock(at: number): string
}

const units: readonly (readonly [Intl.RelativeTimeFormatUnit, number])[] = [
  ['day', 86_400_000],
  ['hour', 3_600_000],
  ['minute', 60_000],
  ['second', 1_000],
]

const spanWords = {
  en: { ms: ' ms', s: ' s', min: ' min', h: ' h', d: ' d' },
  zh: { ms: ' 毫秒', s: ' 秒', min: ' 分', h: ' 小时', d: ' 天' },
} as const

/** The formats of a language; made once for each. */
export function formatOf(language: Language): Format {
  return formats[language]
}

function createFormat(language: Language): Format {
  const locale = localeOf[language]
  const plain = new Intl.NumberFormat(locale, { maximumFractionDigits: 2 })
  const compact = new Intl.NumberFormat(locale, { notation: 'compact', maximumFractionDigits: 1 })
  const percent = new Intl.NumberFormat(locale, { style: 'percent', maximumFractionDigits: 0 })
  const relative = new Intl.RelativeTimeFormat(locale, { numeric: 'auto' })
  const instant = new Intl.DateTimeFormat(locale, { dateStyle: 'medium', timeStyle: 'long' })
  const clock = new Intl.DateTimeFormat(locale, { timeStyle: 'medium', hourCycle: 'h23' })
  const word = spanWords[language]

  function span(ms: number): string {
    const abs = Math.abs(ms)
    if (abs < 1) return `${plain.format(ms)}${word.ms}`
    if (abs < 1_000) return `${Math.round(ms)}${word.ms}`
    if (abs < 60_000) return `${plain.format(Math.round(ms / 100) / 10)}${word.s}`
    const seconds = Math.round(abs / 1_000)
    if (seconds < 3_600) return two(Math.floor(seconds / 60), word.min, seconds % 60, word.s)
    const minutes = Math.floor(seconds / 60)
    if (minutes < 1_440) return two(Math.floor(minutes / 60), word.h, minutes % 60, word.min)
    return two(Math.floor(minutes / 1_440), word.d, Math.floor((minutes % 1_440) / 60), word.h)
  }

  function two(large: number, largeWord: string, small: number, smallWord: string): string {
    const first = `${plain.format(large)}${largeWord}`
    return small === 0 ? first : `${first} ${small}${smallWord}`
  }

  return {
    number: (value) => plain.format(value),
    compact: (value) => (Math.abs(value) < 10_000 ? plain.format(value) : compact.format(value)),
    percent: (share) => percent.format(share),
    bytes(count) {
      if (count < 1_024) return `${count} B`
      if (count < 1_048_576) return `${plain.format(Math.round(count / 102.4) / 10)} KiB`
      return `${plain.format(Math.round(count / 104_857.6) / 10)} MiB`
    },
    span,
    relative(at, now) {
      const ms = at - now
      for (const [unit, size] of units) {
        if (Math.abs(ms) >= size) return relative.format(Math.trunc(ms / size), unit)
      }
      return relative.format(0, 'second')
    },
    instant: (at) => instant.format(at),
    clock: (at) => clock.format(at),
  }
}

const formats: Readonly<Record<Language, Format>> = { en: createFormat('en'), zh: createFormat('zh') }
