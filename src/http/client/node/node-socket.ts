import { type Backoff, backoffMs } from '../../../core/backoff.ts'
import { invalidArgument, SignalboxError } from '../../../core/errors.ts'
import { maxFrameBytes, nodeCloseCodes, nodeSubprotocols, type ServerFrame } from '../../contract/index.ts'
import { shuffle } from '../retry.ts'
import type { PlatformSocket, ResolvedNodeOptions } from './node-options.ts'

/** The callbacks of a connection. */
interface NodeSocketParts extends Pick<ResolvedNodeOptions, 'token' | 'namespace' | 'WebSocket'> {
  readonly url: string
  /** The socket is open: the node must send hello. */
  onOpen(): void
  onFrame(frame: ServerFrame): void
  /** The connection ended. Called once, as the last callback. */
  onEnd(end: SocketEnd): void
}

/** How a connection ended. 1006: it broke, or never opened. */
export interface SocketEnd {
  readonly code: number
  readonly reason: string
  readonly wasOpen: boolean
}

/** How long a connection may take until the server's welcome. */
const welcomeMs = 15_000
/** With more unsent bytes than this, the node skips heartbeats. */
const crowdedBytes = 1_048_576
const open = 1

/**
 * One connection of a node, over the platform's WebSocket. Platforms report neither pings nor a lost peer, so the node
 * sends its own `ping` frames. It gives up the connection after two of them without any frame in return.
 */
export class NodeSocket {
  readonly #parts: NodeSocketParts
  readonly #socket: PlatformSocket
  #welcomeTimer: ReturnType<typeof setTimeout> | undefined
  #wasOpen = false
  #isOver = false
  #unanswered = 0

  constructor(parts: NodeSocketParts) {
    this.#parts = parts
    this.#socket = new parts.WebSocket(parts.url, subprotocolsOf(parts))
    this.#welcomeTimer = setTimeout(() => this.abandon('The server sent no welcome in time.'), welcomeMs)
    this.#socket.onopen = () => {
      this.#wasOpen = true
      try {
        parts.onOpen()
      } catch (error) {
        this.abandon(`The hello could not be sent: ${(error as Error).message}`)
      }
    }
    this.#socket.onmessage = ({ data }) => this.#receive(data)
    // `close` follows, with the code.
    this.#socket.onerror = () => {}
    this.#socket.onclose = ({ code, reason }) => this.#end(code, reason)
  }

  /** Whether too many bytes are unsent. */
  get isCrowded(): boolean {
    return this.#socket.bufferedAmount > crowdedBytes
  }

  send(text: string): boolean {
    if (this.#isOver || this.#socket.readyState !== open) return false
    this.#socket.send(text)
    return true
  }

  /** Called with each heartbeat. Sends a ping, or gives up the connection. */
  check(): void {
    if (this.#unanswered > 2) {
      this.abandon('The server did not answer.')
      return
    }
    if (this.#unanswered++ > 0) this.send('{"type":"ping"}')
  }

  /** The server accepted the node. */
  welcomed(): void {
    clearTimeout(this.#welcomeTimer)
  }

  /** Closes the socket and waits for the server, at most `withinMs`. */
  close(code: number, reason: string, withinMs = 2_000): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    if (this.#isOver) return Promise.resolve()
    const timer = setTimeout(resolve, withinMs)
    this.#socket.onclose = () => resolve()
    this.#socket.close(code, reason)
    return promise.then(() => {
      clearTimeout(timer)
      this.#end(code, reason)
    })
  }

  /** Ends the connection without waiting for the server. */
  abandon(reason: string): void {
    if (this.#isOver) return
    try {
      this.#socket.close(4000, 'The node gave up.')
    } catch {
      // Some platforms throw if the socket never opened.
    }
    this.#end(1006, reason)
  }

  #receive(data: unknown): void {
    if (this.#isOver) return
    this.#unanswered = 0
    const frame = typeof data === 'string' ? parse(data) : undefined
    if (frame !== undefined) this.#parts.onFrame(frame)
  }

  #end(code: number, reason: string): void {
    if (this.#isOver) return
    this.#isOver = true
    clearTimeout(this.#welcomeTimer)
    const socket = this.#socket
    socket.onopen = socket.onmessage = socket.onclose = null
    this.#parts.onEnd({ code, reason, wasOpen: this.#wasOpen })
  }
}

/** Parses a frame; undefined for an invalid one. */
function parse(text: string): ServerFrame | undefined {
  // A server's frames have a payload of up to 256 KiB and little more.
  if (text.length > 2 * maxFrameBytes) return undefined
  try {
    const value = JSON.parse(text) as ServerFrame | null
    return typeof value?.type === 'string' ? value : undefined
  } catch {
    return undefined
  }
}

function subprotocolsOf({ token, namespace }: NodeSocketParts): string[] {
  const { agreed, bearer, namespace: ofNamespace } = nodeSubprotocols
  return [
    agreed,
    ...(token === undefined ? [] : [bearer + base64url(token)]),
    ...(namespace === undefined ? [] : [ofNamespace + base64url(namespace)]),
  ]
}

function base64url(text: string): string {
  const bytes = String.fromCharCode(...new TextEncoder().encode(text))
  return btoa(bytes).replaceAll('+', '-').replaceAll('/', '_').replaceAll('=', '')
}

/** The error after which the node must not connect again; undefined when it may. */
export function finalEnd(
  { code, reason }: SocketEnd,
  problem: { readonly code: string; readonly message: string } | undefined,
): SignalboxError | undefined {
  const why = problem?.message ?? reason
  switch (code) {
    case nodeCloseCodes.badHello:
      if (problem?.code === 'forbidden')
        return new SignalboxError('forbidden', `The server refused the node: ${why}`)
      return invalidArgument(`The server refused the node: ${why}`)
    case nodeCloseCodes.unauthorized:
      return new SignalboxError('unauthorized', `The token of the node is no longer valid: ${why}`)
    case nodeCloseCodes.superseded:
      return new SignalboxError('conflict', `Another instance with the same node id took over. ${why}`.trim())
    default:
      return undefined
  }
}

/** A server that nodes may connect to. */
export interface NodeAddress {
  /** The address of the socket: ws or wss. */
  readonly url: string
  /** The address of the server: http or https, without the path. */
  readonly base: string
}

/** The result of a connection to a server. */
interface ConnectionResult {
  readonly code: number
  /** The server accepted the node. */
  readonly wasWelcome: boolean
  /** The server accepted the node, and the connection lasted. */
  readonly wasGood: boolean
}

/**
 * Chooses the next server of a node, and the wait before it. Each node has its own random order, so the nodes of a dead
 * server spread over the others:
 *
 *     round:  b ──failed──▶ c ──failed──▶ a ──failed──▶ wait, longer after each round ──▶ b
 *
 * A node that loses an accepted connection begins a new round with the next server.
 */
export class NodeAddresses {
  readonly #order: readonly NodeAddress[]
  readonly #backoff: Backoff
  readonly #random: () => number
  #index = 0
  #triedCount = 0
  #failedRounds = 0

  constructor(addresses: readonly NodeAddress[], backoff: Backoff, random: () => number = Math.random) {
    this.#order = shuffle(addresses, random)
    this.#backoff = backoff
    this.#random = random
  }

  get current(): NodeAddress {
    return this.#order[this.#index]!
  }

  get size(): number {
    return this.#order.length
  }

  /** Changes to the next server. Returns how long to wait first. */
  next({ code, wasWelcome, wasGood }: ConnectionResult): number {
    if (wasGood) this.#failedRounds = this.#triedCount = 0
    const stays = code === nodeCloseCodes.unknown
    if (!stays) this.#index = (this.#index + 1) % this.size
    if (stays || ++this.#triedCount >= this.size) {
      this.#triedCount = 0
      return Math.ceil(backoffMs(this.#backoff, ++this.#failedRounds))
    }
    // A random wait spreads the nodes that lost the same server together.
    return wasWelcome ? Math.ceil(this.#random() * this.#backoff.baseMs) : 0
  }
}
