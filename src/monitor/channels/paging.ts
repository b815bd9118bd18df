import type { Message } from './channel.ts'

/**
 * A page of a message. Each page fits into one request of the provider. Pages have all lines, complete and in order;
 * only a line that exceeds an empty page is shortened, with a note. Text of users (venues, sources, states) is cleaned
 * first, then shortened, then escaped, so that no escape is cut in two.
 */
export interface Page {
  /** With the number of the page, if there are several: 'Two venues changed (1/2)'. */
  readonly title: string
  readonly lines: readonly string[]
  readonly isFirst: boolean
}

/** The limit of a provider, and the sizes of texts as the provider counts them: escaped, and as JSON if that counts. */
export interface PageRules {
  readonly maxBytes: number
  /** The size of a page with this title and no lines. */
  frameBytes(title: string): number
  /** The size of a line, with its separator. */
  lineBytes(line: string): number
}

// The longest number of a page.
const longestNumber = ' (99999/99999)'

/** Lays a message out on one page or more. */
export function layOut(message: Message, rules: PageRules): readonly Page[] {
  const empty = rules.frameBytes(longestNumber)
  const title = shorten(
    oneLine(message.title),
    Math.floor((rules.maxBytes - empty) / 4),
    (text) => rules.frameBytes(text + longestNumber) - empty,
  )
  const capacity = rules.maxBytes - rules.frameBytes(title + longestNumber)
  const pages = fillPages(linesOf(message), capacity, rules)
  return pages.map((lines, at) => ({
    title: pages.length === 1 ? title : `${title} (${at + 1}/${pages.length})`,
    lines,
    isFirst: at === 0,
  }))
}

function linesOf(message: Message): readonly string[] {
  const lines = message.changes.map(({ line }) => oneLine(line))
  // A line that only repeats the title is left out.
  const body = lines.length === 1 && lines[0] === oneLine(message.title) ? [] : lines
  return message.possibleRepeat ? [...body, repeatNote] : body
}

const repeatNote = 'This may have reached you before.'

function fillPages(
  lines: readonly string[],
  capacity: number,
  rules: PageRules,
): readonly (readonly string[])[] {
  let page: string[] = []
  const pages = [page]
  let left = capacity
  for (const whole of lines) {
    const line = shorten(whole, capacity, rules.lineBytes)
    const bytes = rules.lineBytes(line)
    if (bytes > left && page.length > 0) {
      page = []
      pages.push(page)
      left = capacity
    }
    page.push(line)
    left -= bytes
  }
  return pages
}

// Line breaks and control characters would start new lines; direction marks can reverse the text of a line.
const unprintable = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]+/gu

/** Puts the text on one line, without control characters, direction marks and broken surrogates. */
export function oneLine(text: string): string {
  return text.toWellFormed().replace(unprintable, ' ').trim()
}

const mark = '… (shortened)'

/** Shortens the text to at most `capacity`, measured by `cost`, with a note at its end. */
export function shorten(text: string, capacity: number, cost: (text: string) => number): string {
  // Every unit costs at least a byte, so only the beginning of a very long text is measured.
  if (text.length <= capacity && cost(text) <= capacity) return text
  let low = 0
  let high = Math.min(text.length, capacity)
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    if (cost(cut(text, middle)) <= capacity) low = middle
    else high = middle - 1
  }
  // A longer text can cost a byte less after escaping, so check the result.
  while (low > 0 && cost(cut(text, low)) > capacity) low -= 1
  return cut(text, low)
}

function cut(text: string, length: number): string {
  const last = text.charCodeAt(length - 1)
  const splitsPair = last >= 0xd800 && last <= 0xdbff
  return `${text.slice(0, splitsPair ? length - 1 : length)}${mark}`
}

/** The number of bytes of this text within JSON. */
export function jsonBytes(text: string): number {
  return Buffer.byteLength(JSON.stringify(text)) - 2
}

/**
 * Escapes text for a provider that reads Markdown. DingTalk and WeCom know parts of Markdown and do not document which
 * escapes. So each construct is also broken for a reader without escapes: a backslash stands between `]` and `(`, and
 * the `<` of mentions and tags is replaced.
 */
export function escapeMarkdown(text: string): string {
  return (
    text
      .replace(/&(?=#|[a-zA-Z])/g, '&amp;')
      .replaceAll('<', '&lt;')
      .replace(/[\\`*~[\]]/g, '\\$&')
      .replaceAll('](', ']\\(')
      .replaceAll('!\\[', '\\!\\[')
      // Underscores within a word have no meaning, and names often have them.
      .replace(/(?<![\p{L}\p{N}])_|_(?![\p{L}\p{N}])/gu, '\\_')
      // At the start of a line, these begin a heading, a quotation, a table, a list or a rule.
      .replace(/^(?:[#>|]|[+-](?=[\s+-]|$)|=(?==))/, '\\$&')
      .replace(/^\d+(?=[.)](?:\s|$))/, '$&\\')
  )
}
