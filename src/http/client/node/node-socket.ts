import { SignalboxError } from '../../../core/errors.ts'
import { maxFrameBytes, nodeCloseCodes, nodeSubprotocols, type ServerFrame } from '../../contract/index.ts'
import type { PlatformSocket, ResolvedNodeOptions } from './node-options.ts'

/** Who is told what a connection brings. */
export interface NodeSocketParts extends Pick<ResolvedNodeOptions, 'token' | 'namespace' | 'WebSocket'> {
  readonly url: string
  /** It is open: say hello. */
  onOpen(): void
  onFrame(frame: ServerFrame): void
  /** It is over; comes once, and last. */
  onEnd(end: SocketEnd): void
}

/** How a connection ended. 1006: it broke, or never came to be. */
export interface SocketEnd {
  readonly code: number
  readonly reason: string
  readonly wasOpen: boolean
}

/** How long a connection may take to be open and welcomed. */
const welcomeMs = 15_000
/** So much may wait to be sent before what need not be sent is left out. */
const crowdedBytes = 1_048_576
const open = 1

/**
 * One connection of a node, over the platform's WebSocket. Platforms tell neither pings nor a peer that vanished, so it
 * asks by itself: two `ping`s without any word in return are its end.
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
    this.#welcomeTimer = setTimeout(() => this.abandon('No welcome came in time.'), welcomeMs)
    this.#socket.onopen = () => {
      this.#wasOpen = true
      try {
        parts.onOpen()
      } catch (error) {
        this.abandon(`Nothing could be said: ${(error as Error).message}`)
      }
    }
    this.#socket.onmessage = ({ data }) => this.#receive(data)
    // What follows is `close`, and that tells more.
    this.#socket.onerror = () => {}
    this.#socket.onclose = ({ code, reason }) => this.#end(code, reason)
  }

  /** Whether more than is good for it waits to be sent. */
  get isCrowded(): boolean {
    return this.#socket.bufferedAmount > crowdedBytes
  }

  send(text: string): boolean {
    if (this.#isOver || this.#socket.readyState !== open) return false
    this.#socket.send(text)
    return true
  }

  /** Once a heartbeat: asks whether the server is there, or gives up. */
  check(): void {
    if (this.#unanswered > 2) {
      this.abandon('The server did not answer.')
      return
    }
    if (this.#unanswered++ > 0) this.send('{"type":"ping"}')
  }

  /** The server took it. */
  welcomed(): void {
    clearTimeout(this.#welcomeTimer)
  }

  /** Says goodbye, and waits for the answer no longer than it must. */
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

  /** Ends it here, whatever the other side does. */
  abandon(reason: string): void {
    if (this.#isOver) return
    try {
      this.#socket.close(4000, 'It was given up.')
    } catch {
      // It never opened, and some platforms complain of that.
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

/** A frame; what is none is for a version that knows better. */
function parse(text: string): ServerFrame | undefined {
  // A server sends a payload of 256 KiB and little more.
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

/** Why there is no use in another connection; undefined when there is. */
export function finalEnd(
  { code, reason }: SocketEnd,
  problem: { readonly code: string; readonly message: string } | undefined,
): SignalboxError | undefined {
  const why = problem?.message ?? reason
  switch (code) {
    case nodeCloseCodes.badHello:
      if (problem?.code === 'forbidden')
        return new SignalboxError('forbidden', `The server did not take the node: ${why}`)
      return new SignalboxError('invalid_argument', `The server did not take the node: ${why}`)
    case nodeCloseCodes.unauthorized:
      return new SignalboxError('unauthorized', `The node's token counts no more: ${why}`)
    case nodeCloseCodes.superseded:
      return new SignalboxError('conflict', `Another instance with this node's id took over. ${why}`.trim())
    default:
      return undefined
  }
}
