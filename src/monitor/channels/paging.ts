import type { Message } from './channel.ts'
import { oneLine, shorten } from './plain-text.ts'

/**
 * Lays a message out on as many pages as the provider's size asks for: whole lines, in order, none left out. Only a
 * line that has no room on a page of its own is shortened, and says so.
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
