import { invalidArgument, SignalboxError } from '../../core/errors.ts'
import { show } from '../../core/options.ts'

/**
 * Server-sent events of the HTML standard (section 9.2): the encoder of the server, and an exact parser for the client.
 * The parser returns the same events however the bytes are split into chunks, and holds at most one event of limited
 * size.
 */

/** An event to write. `data` may have several lines; CR and CRLF in it arrive as LF. */
interface EventToEncode {
  readonly id?: number | string | undefined
  /** @default 'message' */
  readonly type?: string | undefined
  readonly data: string
}

/** The text of one event, including its empty line. */
export function encodeEvent({ id, type, data }: EventToEncode): string {
  let text = ''
  if (id !== undefined) text += `id: ${oneLine('id', String(id))}\n`
  if (type !== undefined) text += `event: ${oneLine('type', type)}\n`
  // JSON text has no line breaks, so the common case is one line.
  const lines = /[\r\n]/.test(data) ? data.split(/\r\n|\r|\n/) : [data]
  for (const line of lines) text += `data: ${line}\n`
  return `${text}\n`
}

/** The text of a comment, which readers skip: a sign of life. */
export function encodeComment(text = ''): string {
  return `: ${oneLine('comment', text)}\n\n`
}

/** The text that sets how long a reader waits before it reconnects. */
export function encodeRetry(retryMs: number): string {
  return `retry: ${Math.max(0, Math.round(retryMs))}\n\n`
}

/** A line break would end the field and begin another; NUL would make readers ignore an id. */
function oneLine(name: string, value: string): string {
  if (!/[\r\n\0]/.test(value)) return value
  throw invalidArgument(
    `The ${name} of a server-sent event must be one line without NUL, not ${show(value)}.`,
  )
}

/** A parsed event. */
export interface ParsedEvent {
  /** The last id of the stream so far; '' without one. */
  readonly id: string
  readonly type: string
  readonly data: string
}

/** The most that one event may hold, in UTF-16 units. */
export const maxEventLength = 1_048_576

const lf = 10
const cr = 13
/** The longest delay of a timer. Longer reconnect times are cut to it. */
const maxRetryMs = 2 ** 31 - 1

/** A parser for one connection. `lastEventId` is the Last-Event-ID that opened it. */
export class EventParser {
  readonly #onEvent: (event: ParsedEvent) => void
  /**
   * Joins characters that are split over chunks. Byte order marks stay: Node's decoder removes one too many if split.
   */
  readonly #decoder = new TextDecoder('utf-8', { ignoreBOM: true })
  #hasBegun = false
  /** A line that began in an earlier chunk. */
  #line = ''
  /** The last character was CR: a following LF belongs to it. */
  #afterCr = false
  #type = ''
  #data = ''
  /** An id counts for reconnecting after its event was dispatched. */
  #id: string
  #lastEventId: string
  #retryMs: number | undefined

  constructor(
    onEvent: (event: ParsedEvent) => void,
    { lastEventId = '' }: { readonly lastEventId?: string } = {},
  ) {
    this.#onEvent = onEvent
    this.#id = lastEventId
    this.#lastEventId = lastEventId
  }

  /** The Last-Event-ID for the next connection. */
  get lastEventId(): string {
    return this.#lastEventId
  }

  /** How long the server asked to wait before a reconnect; undefined if it did not ask. */
  get retryMs(): number | undefined {
    return this.#retryMs
  }

  /** Parses the next bytes. Throws `too_large` for an event above the limit. Then the stream must be closed. */
  push(chunk: Uint8Array): void {
    const text = this.#withoutMark(this.#decoder.decode(chunk, { stream: true }))
    let start = 0
    for (let at = 0; at < text.length; at++) {
      const unit = text.charCodeAt(at)
      if (unit === lf && this.#afterCr) {
        this.#afterCr = false
        start = at + 1
        continue
      }
      this.#afterCr = unit === cr
      if (unit !== lf && unit !== cr) continue
      const line = this.#line + text.slice(start, at)
      this.#line = ''
      start = at + 1
      this.#checkSize(line)
      this.#read(line)
    }
    this.#line += text.slice(start)
    this.#checkSize(this.#line)
  }

  /** Removes one byte order mark at the beginning of the stream. */
  #withoutMark(text: string): string {
    if (this.#hasBegun || text === '') return text
    this.#hasBegun = true
    return text.startsWith('\uFEFF') ? text.slice(1) : text
  }

  #checkSize(line: string): void {
    if (this.#data.length + this.#type.length + line.length <= maxEventLength) return
    throw new SignalboxError(
      'too_large',
      `A server-sent event is larger than ${maxEventLength} characters. Read this another way.`,
    )
  }

  #read(line: string): void {
    if (line === '') {
      this.#dispatch()
      return
    }
    const colon = line.indexOf(':')
    if (colon === 0) return
    const field = colon < 0 ? line : line.slice(0, colon)
    const value = colon < 0 ? '' : line.slice(line.charAt(colon + 1) === ' ' ? colon + 2 : colon + 1)
    switch (field) {
      case 'event':
        this.#type = value
        break
      case 'data':
        this.#data += `${value}\n`
        break
      case 'id':
        if (!value.includes('\0')) this.#id = value
        break
      case 'retry':
        if (/^[0-9]+$/.test(value)) this.#retryMs = Math.min(Number(value), maxRetryMs)
    }
  }

  #dispatch(): void {
    const data = this.#data
    const type = this.#type
    this.#data = ''
    this.#type = ''
    this.#lastEventId = this.#id
    if (data === '') return
    this.#onEvent({ id: this.#id, type: type === '' ? 'message' : type, data: data.slice(0, -1) })
  }
}
