import type { BodyLimits } from '../../contract/index.ts'
import type { Incoming, OutgoingStream, OutgoingText } from '../call.ts'
import { clientGone, http, linesOf } from '../node-http.ts'
import { bodyTooLarge } from '../request/body.ts'
import type { Transport } from '../streams/transport.ts'
import type { FastPathConnection } from './fast-path.ts'
import type { Headers, WholeRequest } from './read-head.ts'

/** A request that the fast path has read. */
export class FastPathRequest implements Incoming {
  readonly method: string
  readonly path: string
  readonly query: string
  readonly #headers: Headers
  readonly #body: Uint8Array
  readonly #connection: FastPathConnection
  #gone: AbortController | undefined
  /** The client has closed the connection, or its half of it. */
  isGone = false

  constructor({ method, target, headers, body }: WholeRequest, connection: FastPathConnection) {
    this.method = method
    const mark = target.indexOf('?')
    this.path = mark === -1 ? target : target.slice(0, mark)
    this.query = mark === -1 ? '' : target.slice(mark + 1)
    this.#headers = headers
    this.#body = body
    this.#connection = connection
  }

  header(name: string): string | undefined {
    return this.#headers.get(name)
  }

  get address(): string {
    return this.#connection.socket.remoteAddress ?? ''
  }

  /** Made on demand: most requests never need it. */
  get signal(): AbortSignal {
    this.#gone ??= new AbortController()
    if (this.isGone) this.#gone.abort(clientGone())
    return this.#gone.signal
  }

  readBody({ maxBytes }: BodyLimits): Uint8Array {
    if (this.#body.length > maxBytes) throw bodyTooLarge(maxBytes)
    return this.#body
  }

  /** Ends every wait of this request. */
  leave(): void {
    this.isGone = true
    this.#gone?.abort(clientGone())
  }

  /** Writes the answer. `isLast`: the connection ends with it. */
  reply({ status, headers, body }: OutgoingText, requestId: string, isLast: boolean): void {
    const closes = isLast || this.#connection.hasEnded
    const bytes = typeof body === 'string' ? Buffer.byteLength(body) : body.length
    const keeps = closes ? closing : keepingFor(this.#connection.keepAliveMs)
    // A 304 has no body, and its length would be that of the page that the client has.
    const length = status === 304 ? '' : `content-length: ${bytes}\r\n`
    const head = `${headOf(status, headers)}x-request-id: ${requestId}\r\n${length}Date: ${date()}\r\n${keeps}`
    // Text with a byte for each character, as nearly all is, goes out as it lies in memory.
    if (typeof body !== 'string')
      this.#connection.write(head + Buffer.from(body).toString('latin1'), 'latin1', closes)
    else this.#connection.write(head + body, bytes === body.length ? 'latin1' : 'utf8', closes)
  }

  /** Writes the head of a stream, which ends with its connection: so every event goes out as the bytes that all share. */
  stream({ status, headers }: OutgoingStream, requestId: string): Transport {
    return this.#connection.stream(
      `${headOf(status, headers)}x-request-id: ${requestId}\r\nDate: ${date()}\r\n${closing}`,
    )
  }
}

const closing = 'Connection: close\r\n\r\n'
let keeping = { ms: -1, lines: '' }

function keepingFor(ms: number): string {
  if (keeping.ms !== ms)
    keeping = { ms, lines: `Connection: keep-alive\r\nKeep-Alive: timeout=${Math.floor(ms / 1_000)}\r\n\r\n` }
  return keeping.lines
}

const heads = new WeakMap<object, Map<number, string>>()

/** The first line and the headers that do not depend on the request. Most answers share one of a few sets of headers. */
function headOf(status: number, headers: Readonly<Record<string, string>>): string {
  let known = heads.get(headers)
  if (known === undefined) {
    known = new Map()
    heads.set(headers, known)
  }
  let head = known.get(status)
  if (head === undefined) {
    const lines = linesOf(headers)
    head = `HTTP/1.1 ${status} ${http.STATUS_CODES[status]}\r\n`
    for (let at = 0; at < lines.length; at += 2) head += `${lines[at]}: ${lines[at + 1]}\r\n`
    known.set(status, head)
  }
  return head
}

let dateAt = 0
let dateText = ''

/** Put into words once a second. */
function date(): string {
  const second = Math.floor(Date.now() / 1_000)
  if (second !== dateAt) {
    dateAt = second
    dateText = new Date(second * 1_000).toUTCString()
  }
  return dateText
}
