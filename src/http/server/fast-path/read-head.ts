/**
 * Reads two kinds of requests: a POST that arrives whole in one read of its socket, and a GET that asks for a stream of events.
 * Anything unusual (another method or version, a repeated header, a transfer encoding, `Expect`, a byte too few or too
 * many) is left to Node. So a request that is read here can be understood in one way only; a test in `read-head.test.ts`
 * compares the result with Node's.
 */
export interface WholeRequest {
  readonly method: 'GET' | 'POST'
  /** As it came, with its query. */
  readonly target: string
  readonly headers: Headers
  readonly body: Uint8Array
}

/** By name in lower case. */
export type Headers = ReadonlyMap<string, string>

export interface HeadReaderOptions {
  readonly maxHeaderBytes: number
  /** Whether a GET of this path opens a stream of events. */
  isStream(path: string): boolean
}

/** Reads requests. Programs repeat the same headers, so the reader keeps the latest ones parsed. */
export class HeadReader {
  readonly #options: HeadReaderOptions
  readonly #known = new Map<string, Fields>()

  constructor(options: HeadReaderOptions) {
    this.#options = options
  }

  /** The request, if the chunk is exactly one that can be read here. */
  read(chunk: Buffer): WholeRequest | undefined {
    const method = chunk[0] === firstOfPost ? 'POST' : chunk[0] === firstOfGet ? 'GET' : undefined
    if (method === undefined) return undefined
    const end = chunk.indexOf(blankLine)
    if (end === -1 || end + blankLine.length > this.#options.maxHeaderBytes) return undefined
    const head = chunk.toString('latin1', 0, end)
    const lineEnd = head.indexOf('\r\n')
    if (lineEnd === -1 || !head.startsWith(version, lineEnd - version.length)) return undefined
    if (!head.startsWith(method === 'POST' ? 'POST /' : 'GET /')) return undefined
    const target = head.slice(method.length + 1, lineEnd - version.length)
    if (strangeInTarget.test(target)) return undefined
    const fields = this.#read(head.slice(lineEnd + 2))
    const begin = end + blankLine.length
    if (fields === undefined || chunk.length !== begin + (fields.bodyBytes ?? 0)) return undefined
    if (method === 'POST' ? fields.bodyBytes === undefined : !this.#isStream(fields, target)) return undefined
    return { method, target, headers: fields.headers, body: chunk.subarray(begin) }
  }

  /** Other answers to a GET may be large, or files, or none at all. */
  #isStream({ wantsEvents }: Fields, target: string): boolean {
    if (!wantsEvents) return false
    const mark = target.indexOf('?')
    return this.#options.isStream(mark === -1 ? target : target.slice(0, mark))
  }

  #read(lines: string): Fields | undefined {
    const known = this.#known.get(lines)
    if (known !== undefined) return known
    const fields = readFields(lines)
    if (fields === undefined || lines.length > maxKnownChars) return fields
    // The map stays small, and headers that are in use come back at once.
    if (this.#known.size >= maxKnown) this.#known.clear()
    this.#known.set(lines, fields)
    return fields
  }
}

/** The headers of a request, and what they say of its body. */
interface Fields {
  readonly headers: Headers
  /** Undefined: they do not say. */
  readonly bodyBytes: number | undefined
  /** They ask for a stream of events, and say nothing of a body. */
  readonly wantsEvents: boolean
}

/** Few, so that a token does not stay in memory for long; enough for the body lengths that one program sends. */
const maxKnown = 256
const maxKnownChars = 2_048
const version = ' HTTP/1.1'
const firstOfPost = 0x50
const firstOfGet = 0x47
const blankLine = Buffer.from('\r\n\r\n')
const strangeInTarget = /[^\x21-\x7e]/
const plainLength = /^(?:0|[1-9]\d{0,8})$/
const plainName = /^[A-Za-z0-9-]+$/
/** Lone carriage returns and line feeds among them. */
const strangeInValue = /[^\t\x20-\x7e]/

/** These change how a request is read, or what becomes of its connection. */
const notPlain: ReadonlySet<string> = new Set([
  'transfer-encoding',
  'upgrade',
  'expect',
  'te',
  'trailer',
  'keep-alive',
  'proxy-connection',
])

function readFields(lines: string): Fields | undefined {
  const headers = new Map<string, string>()
  for (const line of lines.split('\r\n')) {
    const colon = line.indexOf(':')
    if (colon === -1 || strangeInValue.test(line)) return undefined
    const name = line.slice(0, colon)
    if (!plainName.test(name)) return undefined
    const known = name.toLowerCase()
    // Of those that come twice, Node leaves some out and joins others.
    if (notPlain.has(known) || headers.has(known)) return undefined
    // Of all that `trim` takes away, only spaces and tabs can be here.
    const value = line.slice(colon + 1).trim()
    if (known === 'connection' && value.toLowerCase() !== 'keep-alive') return undefined
    headers.set(known, value)
  }
  const length = headers.get('content-length')
  if (length !== undefined && !plainLength.test(length)) return undefined
  const wantsEvents = length === undefined && headers.get('accept')?.startsWith('text/event-stream') === true
  return { headers, bodyBytes: length === undefined ? undefined : Number(length), wantsEvents }
}
