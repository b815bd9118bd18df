import type { Message } from './channel.ts'

/**
 * Lays a message out on as many pages as the provider's size asks for: whole lines, in order, none left out. Only a
 * line that does not fit on an empty page is shortened, and says so. Text of people (venues, sources, states) is cleaned
 * first, shortened next and escaped last, so that no escape is ever cut in two.
 */
export interface Page {
  /** With its number where there are several: 'Two venues changed (1/2)'. */
  readonly title: string
  readonly lines: readonly string[]
  readonly isFirst: boolean
}

/** What a provider takes, and what things cost as they will be written (escaped, within JSON where that counts). */
export interface PageRules {
  readonly maxBytes: number
  /** Of a page with this title and no lines. */
  frameBytes(title: string): number
  /** Of one line, with what separates it from the next. */
  lineBytes(line: string): number
}

// As long as a page's number can become.
const longestNumber = ' (99999/99999)'

/** The pages of a message, at least one. */
export function layOut(message: Message, rules: PageRules): readonly Page[] {
  const empty = rules.frameBytes(longestNumber)
  const title = shorten(
    oneLine(message.title),
    Math.floor((rules.maxBytes - empty) / 4),
    (text) => rules.frameBytes(text + longestNumber) - empty,
  )
  const room = rules.maxBytes - rules.frameBytes(title + longestNumber)
  const pages = fill(linesOf(message), room, rules)
  return pages.map((lines, at) => ({
    title: pages.length === 1 ? title : `${title} (${at + 1}/${pages.length})`,
    lines,
    isFirst: at === 0,
  }))
}

function linesOf(message: Message): readonly string[] {
  const lines = message.changes.map(({ line }) => oneLine(line))
  // A title that says it all is not said again.
  const body = lines.length === 1 && lines[0] === oneLine(message.title) ? [] : lines
  return message.possibleRepeat ? [...body, repeatNote] : body
}

const repeatNote = 'This may have reached you before.'

function fill(lines: readonly string[], room: number, rules: PageRules): readonly (readonly string[])[] {
  let page: string[] = []
  const pages = [page]
  let left = room
  for (const whole of lines) {
    const line = shorten(whole, room, rules.lineBytes)
    const bytes = rules.lineBytes(line)
    if (bytes > left && page.length > 0) {
      page = []
      pages.push(page)
      left = room
    }
    page.push(line)
    left -= bytes
  }
  return pages
}

// Line breaks and controls would begin lines of their own; the direction marks can make a line read as another one.
const unprintable = /[\p{Cc}\u2028\u2029\u202a-\u202e\u2066-\u2069]+/gu

/** The text on one line, without controls and broken surrogates. */
export function oneLine(text: string): string {
  return text.toWellFormed().replace(unprintable, ' ').trim()
}

const mark = '… (shortened)'

/** The text, or as much of its beginning as costs at most `room`, with a note that it was shortened. */
export function shorten(text: string, room: number, cost: (text: string) => number): string {
  // Every unit costs a byte or more, so of a very long text only the beginning is ever looked at.
  if (text.length <= room && cost(text) <= room) return text
  let low = 0
  let high = Math.min(text.length, room)
  while (low < high) {
    const middle = Math.ceil((low + high) / 2)
    if (cost(cut(text, middle)) <= room) low = middle
    else high = middle - 1
  }
  // What escaping costs can shrink by a byte as text goes on, so the last step is checked and not assumed.
  while (low > 0 && cost(cut(text, low)) > room) low -= 1
  return cut(text, low)
}

function cut(text: string, length: number): string {
  const last = text.charCodeAt(length - 1)
  const splitsPair = last >= 0xd800 && last <= 0xdbff
  return `${text.slice(0, splitsPair ? length - 1 : length)}${mark}`
}

/** How many bytes this text is within JSON. */
export function jsonBytes(text: string): number {
  return Buffer.byteLength(JSON.stringify(text)) - 2
}

/**
 * Text that must show as text where the provider reads Markdown. DingTalk and WeCom each know a part of it and do not
 * say which escapes they know, so each construct is also broken for a reader that knows none: a backslash stands
 * between `]` and `(`, and a mention's or a tag's `<` is gone.
 */
export function escapeMarkdown(text: string): string {
  return (
    text
      .replace(/&(?=#|[a-zA-Z])/g, '&amp;')
      .replaceAll('<', '&lt;')
      .replace(/[\\`*~[\]]/g, '\\$&')
      .replaceAll('](', ']\\(')
      .replaceAll('!\\[', '\\!\\[')
      // Within a word an underscore is only that, and names are full of them.
      .replace(/(?<![\p{L}\p{N}])_|_(?![\p{L}\p{N}])/gu, '\\_')
      // What would begin a heading, a quotation, a table, a list or a rule, for it opens its line.
      .replace(/^(?:[#>|]|[+-](?=[\s+-]|$)|=(?==))/, '\\$&')
      .replace(/^\d+(?=[.)](?:\s|$))/, '$&\\')
  )
}
