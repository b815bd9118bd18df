import { lookup as systemLookup } from 'node:dns/promises'
import type { ClientRequest, Agent as HttpAgent, IncomingMessage } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest } from 'node:https'
import { isIP, type LookupFunction } from 'node:net'
import { duration, withDefaults } from '../../core/options.ts'
import type { OutboundReply, OutboundRequest } from '../channels/channel.ts'
import { type AddressRules, parseAddressRules, toAllowPrivate } from './address-rules.ts'

/**
 * The only code that sends messages over the network. It never throws: the reply has the error, without secrets.
 *
 *   url ── literal address? ── checked here
 *    └──── name ── checked by the connection: all its addresses; then it connects to one of these
 *
 * The check is part of the connection's own look-up. So no second look-up can give another answer (a rebinding name),
 * and a connection that is kept open was checked when it was opened. Redirects are replies like any other. The
 * environment's proxies are not used, because a proxy would connect to unchecked addresses.
 */
export interface Outbound extends AsyncDisposable {
  send(request: OutboundRequest): Promise<OutboundReply>
  /**
   * Waits for open requests (at most `timeoutMs`), then closes all connections. `isOver`: does not wait; open requests
   * end at once, with an unknown outcome.
   */
  close(options?: { readonly isOver?: boolean }): Promise<void>
}

export interface OutboundOptions {
  /** Private addresses and ranges that it may reach; plain http is allowed only for these. @default [] */
  readonly allowPrivate?: readonly string[]
  /** The time limit of the look-up, the connection, the request and its reply together. @default 5_000 */
  readonly timeoutMs?: number
  /** Certificate authorities (PEM) to trust instead of those that Node trusts. @default Node's */
  readonly ca?: string | undefined
  /** Returns all addresses of a name. @default the system's resolver */
  readonly lookup?: ((hostname: string) => Promise<readonly ResolvedAddress[]>) | undefined
}

export interface ResolvedAddress {
  readonly address: string
  readonly family: number
}

const outboundDefaults: Required<OutboundOptions> = {
  allowPrivate: [],
  timeoutMs: 5_000,
  ca: undefined,
  lookup: undefined,
}

/** The part of a reply that is read; the rest is dropped. */
const maxReplyBytes = 65_536

const connectionPool = {
  keepAlive: true,
  /** How long an idle connection stays open: shorter than servers keep it, so that none is used while it closes. */
  timeout: 4_000,
  /** The most connections to one host at once. */
  maxSockets: 32,
  maxFreeSockets: 4,
}

/** Creates a sender of requests that reaches only allowed addresses. */
export function createOutbound(options?: OutboundOptions): Outbound {
  return new HttpOutbound(withDefaults('outbound', options, outboundDefaults))
}

/** An `import` of `node:http` would also load Node's fetch and WebSocket, which take 13 MB. */
const http = process.getBuiltinModule('node:http')

type Resolve = (hostname: string) => Promise<readonly ResolvedAddress[]>

class HttpOutbound implements Outbound {
  readonly #rules: AddressRules
  readonly #timeoutMs: number
  readonly #ca: string | undefined
  readonly #resolve: Resolve
  // Each agent keeps its connections by host and port.
  readonly #http: HttpAgent
  readonly #https: HttpsAgent
  readonly #underWay = new Set<Promise<unknown>>()
  #closing = false

  constructor(options: Required<OutboundOptions>) {
    this.#rules = parseAddressRules(options.allowPrivate)
    this.#timeoutMs = duration('timeoutMs', options.timeoutMs, { min: 1, max: 600_000 })
    this.#ca = options.ca
    this.#resolve = options.lookup ?? ((hostname) => systemLookup(hostname, { all: true, verbatim: true }))
    this.#http = new http.Agent(connectionPool)
    this.#https = new HttpsAgent(connectionPool)
  }

  async send(request: OutboundRequest): Promise<OutboundReply> {
    if (this.#closing) return notSent('this process is shutting down')
    const exchange = this.#exchange(request)
    this.#underWay.add(exchange)
    try {
      return await exchange
    } finally {
      this.#underWay.delete(exchange)
    }
  }

  async close({ isOver = false }: { readonly isOver?: boolean } = {}): Promise<void> {
    this.#closing = true
    if (!isOver) await Promise.all(this.#underWay)
    this.#http.destroy()
    this.#https.destroy()
    await Promise.all(this.#underWay)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  async #exchange({ url: address, headers, body }: OutboundRequest): Promise<OutboundReply> {
    const url = URL.parse(address)
    if (url === null) return notSent('the address is not a url')
    const refusal = this.#refusal(url)
    if (refusal !== undefined) return notSent(refusal)
    const secure = url.protocol === 'https:'
    let call: ClientRequest
    try {
      call = (secure ? httpsRequest : http.request)({
        method: 'POST',
        hostname: bareHost(url),
        port: url.port === '' ? (secure ? 443 : 80) : Number(url.port),
        path: `${url.pathname}${url.search}`,
        agent: secure ? this.#https : this.#http,
        lookup: checkedLookup(this.#resolve, this.#rules, secure),
        headers: {
          'user-agent': 'signalbox',
          ...headers,
          'accept-encoding': 'identity',
          'content-length': Buffer.byteLength(body),
        },
        ...(secure && this.#ca !== undefined ? { ca: this.#ca } : {}),
      })
    } catch {
      // Node refuses headers and paths with characters that HTTP does not allow. Its message would quote them.
      return notSent('the request has characters that HTTP does not allow')
    }
    return await sendAndRead(call, body, secure, this.#timeoutMs)
  }

  #refusal(url: URL): string | undefined {
    if (url.protocol !== 'https:' && url.protocol !== 'http:') return 'the address is neither https nor http'
    if (url.username !== '' || url.password !== '') return 'the address carries a user name or a password'
    const host = bareHost(url)
    if (isIP(host) === 0) return undefined
    return refusalOf(host, this.#rules, url.protocol === 'https:')
  }
}

/** The reason to refuse this address; undefined: it is allowed. */
function refusalOf(address: string, rules: AddressRules, secure: boolean): string | undefined {
  if (!rules.isAllowed(address)) return `the address is private, local or reserved. ${toAllowPrivate}`
  if (!secure && !rules.isNamed(address))
    return `plain http is only for private addresses that you allow. ${toAllowPrivate}`
  return undefined
}

/** A look-up for net.connect that answers only if every address of the name is allowed. */
function checkedLookup(resolve: Resolve, rules: AddressRules, secure: boolean): LookupFunction {
  return (hostname, options, callback) => {
    resolve(hostname).then(
      (found) => {
        const [first] = found
        if (first === undefined) {
          callback(Object.assign(new Error('no address'), { code: 'ENOTFOUND' }), '')
          return
        }
        for (const { address } of found) {
          // One refused address refuses the whole name: its owner must not control which address is used.
          const refusal = refusalOf(address, rules, secure)
          if (refusal === undefined) continue
          callback(new AddressRefused(refusal), '')
          return
        }
        if (options.all === true) callback(null, [...found])
        else callback(null, first.address, first.family)
      },
      (error: unknown) => callback(error as NodeJS.ErrnoException, ''),
    )
  }
}

function bareHost(url: URL): string {
  return url.hostname.startsWith('[') ? url.hostname.slice(1, -1) : url.hostname
}

/** The address is not allowed, so no connection was opened. The message does not name the address. */
class AddressRefused extends Error {}

/** Sends the body and reads the reply, within the limits of time and size. Never rejects. */
function sendAndRead(
  call: ClientRequest,
  body: string,
  secure: boolean,
  timeoutMs: number,
): Promise<OutboundReply> {
  const { promise, resolve } = Promise.withResolvers<OutboundReply>()
  // Once true, bytes of the request may have left.
  let connected = false
  let reply: IncomingMessage | undefined
  const chunks: Buffer[] = []
  let bytes = 0
  let ended = false

  const end = (problem?: string): void => {
    if (ended) return
    ended = true
    clearTimeout(timer)
    if (reply === undefined) resolve({ ...notSent(problem ?? 'no reply'), sure: !connected })
    else {
      const text = Buffer.concat(chunks, Math.min(bytes, maxReplyBytes)).toString('utf8')
      const headers = flatten(reply.headers)
      resolve({ status: reply.statusCode ?? 0, headers, body: text, ...(problem && { problem }) })
    }
  }
  const timer = setTimeout(() => {
    end(`no whole reply within ${timeoutMs} ms`)
    call.destroy()
  }, timeoutMs)

  call.on('socket', (socket) => {
    if (call.reusedSocket || !socket.connecting) connected = true
    // Over TLS no byte of the request leaves before the server has proved its identity.
    else socket.once(secure ? 'secureConnect' : 'connect', () => (connected = true))
  })
  call.on('error', (error) => end(explain(error, connected)))
  call.on('response', (message) => {
    reply = message
    message.on('data', (chunk: Buffer) => {
      chunks.push(chunk)
      bytes += chunk.length
      if (bytes <= maxReplyBytes) return
      end(`the reply was longer than ${maxReplyBytes} bytes and was cut`)
      call.destroy()
    })
    message.on('end', () => end())
    message.on('error', (error) => end(explain(error, true)))
    message.on('close', () => end('the connection ended during the reply'))
  })
  call.end(body)
  return promise
}

/** Explains an error by its code only: messages of Node quote names, paths and certificates. */
function explain(error: Error, connected: boolean): string {
  if (error instanceof AddressRefused) return error.message
  const code = (error as NodeJS.ErrnoException).code ?? 'no code'
  if (error instanceof AggregateError) return `none of its addresses could be connected to (${code})`
  switch (code) {
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `the name of the host was not resolved (${code})`
    case 'ECONNREFUSED':
      return 'the connection was refused'
    case 'ECONNRESET':
    case 'EPIPE':
      return connected
        ? 'the connection ended before a reply came'
        : 'the connection ended while it was being opened'
    default:
      return connected ? `the exchange failed (${code})` : `the connection could not be made (${code})`
  }
}

function notSent(problem: string): OutboundReply {
  return { status: 0, headers: {}, body: '', problem, sure: true }
}

function flatten(headers: IncomingMessage['headers']): Record<string, string> {
  const flat: Record<string, string> = {}
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined) flat[name] = Array.isArray(value) ? value.join(', ') : value
  }
  return flat
}
