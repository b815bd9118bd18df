import type { InstantTerm, Pattern, SearchTerm } from './search-term.ts'

/** Writes a search as `parseSearch` reads it: the same terms, in the same order, each in one spelling. */
export function formatSearch(terms: readonly SearchTerm[]): string {
  return terms.map((term) => (term.negated ? '-' : '') + formatTerm(term)).join(' ')
}

function formatTerm(term: SearchTerm): string {
  switch (term.field) {
    case 'text':
      // A word that begins with a minus would say the opposite.
      return /^[^\s":<>=*-][^\s":<>=*]*$/.test(term.text) ? term.text : quote(term.text)
    case 'state':
      return `state:${term.state}`
    case 'created':
    case 'run':
    case 'started':
    case 'finished':
      return term.field + term.comparison + formatInstant(term.instant)
    case 'attempt':
      return `attempt${term.comparison}${term.count}`
    case 'error':
      return `error:${term.text === null ? '*' : formatValue(term.text)}`
    case 'payload':
      return `${['payload', ...term.path.map(formatName)].join('.')}:${formatPattern(term.pattern)}`
    default:
      return `${term.field}:${formatPattern(term.pattern)}`
  }
}

function formatPattern({ text, prefix }: Pattern): string {
  if (!prefix) return formatValue(text)
  return text === '' ? '*' : `${formatValue(text)}*`
}

function formatValue(text: string): string {
  return /^[^\s"*]+$/.test(text) ? text : quote(text)
}

/** One name on the way into a payload. */
function formatName(name: string): string {
  return /^[^\s".:<>=*]+$/.test(name) ? name : quote(name)
}

function formatInstant(instant: InstantTerm['instant']): string {
  if ('at' in instant) return new Date(instant.at).toISOString().replace(/T00:00:00\.000Z$/, '')
  const { fromNowMs } = instant
  const ms = Math.abs(fromNowMs)
  const [unit, size] = units.find(([, size]) => ms % size === 0)!
  return `${fromNowMs < 0 ? '-' : '+'}${ms / size}${unit}`
}

const units = [
  ['d', 86_400_000],
  ['h', 3_600_000],
  ['m', 60_000],
  ['s', 1_000],
  ['ms', 1],
] as const

function quote(text: string): string {
  return `"${text.replaceAll(/["\\]/g, '\\$&')}"`
}
