/**
 * Reads requests of the plainest kind, and leaves all others alone: a POST that lies whole in one read of its socket,
 * written as nearly every program writes it, and the same of a GET that asks for a stream of events. Whatever is unusual
 * in the least about one (another method or version, a name twice, a transfer encoding, a wish to be told to go on, a byte
 * too few or too many) is not read here at all, and so is Node's to judge. For what is read, there is one way to understand
 * it; `read-head.test.ts` compares it against Node's own.
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

/** Reads requests. Programs send the same headers again and again, so those that came lately are known. */
export class HeadReader {
  readonly #maxHeaderBytes: number
  readonly #known = new Map<string, Fields>()

  constructor(maxHeaderBytes: number) {
    this.#maxHeaderBytes = maxHeaderBytes
  }

  /** The request that this is, no more and no less; undefined when it is none of the plainest kind. */
  read(chunk: Buffer): WholeRequest | undefined {
    const method = chunk[0] === firstOfPost ? 'POST' : chunk[0] === firstOfGet ? 'GET' : undefined
    if (method === undefined) return undefined
    const end = chunk.indexOf(blankLine)
    if (end === -1 || end + blankLine.length > this.#maxHeaderBytes) return undefined
    const head = chunk.toString('latin1', 0, end)
    const lineEnd = head.indexOf('\r\n')
    if (lineEnd === -1 || !head.startsWith(version, lineEnd - version.length)) return undefined
    if (!head.startsWith(method === 'POST' ? 'POST /' : 'GET /')) return undefined
    const target = head.slice(method.length + 1, lineEnd - version.length)
    if (strangeInTarget.test(target)) return undefined
    const fields = this.#read(head.slice(lineEnd + 2))
    const begin = end + blankLine.length
    if (fields === undefined || chunk.length !== begin + (fields.bodyBytes ?? 0)) return undefined
    // Other answers to a GET may be large, or files, or none at all.
    if (method === 'POST' ? fields.bodyBytes === undefined : !fields.wantsEvents) return undefined
    return { method, target, headers: fields.headers, body: chunk.subarray(begin) }
  }

  #read(lines: string): Fields | undefined {
    const known = this.#known.get(lines)
    if (known !== undefined) return known
    const fields = readFields(lines)
    if (fields === undefined || lines.length > maxKnownChars) return fields
    // Nobody makes it grow, and all that are used come back at once.
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

/** So few that a secret among them is not long in memory, and enough for the lengths of what one program sends. */
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
