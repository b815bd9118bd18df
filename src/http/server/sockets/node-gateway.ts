import { type Clock, systemClock } from '../../../core/clock.ts'
import type { NodeConnector, NodeFrame, NodeLink, NodeSession, ServerFrame } from '../../../dispatch/index.ts'
import { nodeCloseCodes, type PingFrame } from '../../contract/index.ts'
import type { Principal } from '../call.ts'
import { type FrameRefusal, readNodeFrame, TokenBucket } from './gateway-frames.ts'
import { closeCodes, type GuardedSocket } from './guarded-socket.ts'
import type { Gateway } from './upgrade.ts'

/**
 * The WebSocket endpoint of nodes. Each socket belongs to one node, in the namespace of its token. The `hello` frame
 * names the node; no later frame can change the name.
 *
 *     socket ──hello within 10 s──▶ connections.connect ──▶ session ◀── frames, pongs, the end
 *        └── another frame first: `error`, closed
 *
 * The gateway answers an invalid frame with an `error` and drops it. It stops reading from a node that sends too fast,
 * for a while. It disconnects a node that keeps sending invalid frames. No node delays another.
 */
export interface NodeGatewayOptions {
  /** Enters the principal's namespace. The gateway leaves it when the socket closes. */
  readonly enter: (principal: Principal) => EnteredNamespace
  /** How long a socket may take to send `hello`. @default 10_000 */
  readonly helloMs?: number
  /** Frames a second that a socket may send in the long run; above, the server stops reading. @default 10_000 */
  readonly framesPerSecond?: number
  /** Frames that a socket may send at once. @default 20_000 */
  readonly frameBurst?: number
  readonly clock?: Clock
}

/** The node connections of a namespace that the gateway entered. */
interface EnteredNamespace {
  readonly connections: NodeConnector
  leave(): void
}

/** How many invalid frames the gateway answers at once, and per second. It disconnects a node that sends more. */
const refusals = { perSecond: 2, burst: 64 }

/** Creates the gateway at `nodesPath`. */
export function createNodeGateway(options: NodeGatewayOptions): Gateway {
  return {
    scope: 'work',
    accept: (socket, principal) => void new GatewaySocket(socket, principal, options),
  }
}

/** The socket of one node. */
class GatewaySocket {
  readonly #socket: GuardedSocket
  readonly #connections: NodeConnector
  /** The node ids that the token may use; undefined: any. */
  readonly #nodes: readonly string[] | undefined
  readonly #link: NodeLink
  readonly #clock: Clock
  readonly #frames: TokenBucket
  /** Created with the first refused frame: most sockets never send one. */
  #refusals: TokenBucket | undefined
  #helloTimer: unknown
  #session: NodeSession | undefined
  /** The number of reasons to pause the socket. */
  #holds = 0
  #isOver = false

  constructor(socket: GuardedSocket, principal: Principal, options: NodeGatewayOptions) {
    const { clock = systemClock, helloMs = 10_000, framesPerSecond = 10_000, frameBurst = 20_000 } = options
    const { connections, leave } = options.enter(principal)
    this.#socket = socket
    this.#connections = connections
    this.#nodes = principal.nodes
    this.#clock = clock
    this.#frames = new TokenBucket({ perSecond: framesPerSecond, burst: frameBurst, clock })
    this.#link = {
      send: (frame) => socket.send(JSON.stringify(frame)),
      close: (code, reason) => socket.close(code, reason),
    }
    this.#helloTimer = clock.setTimeout(() => this.#end('hello_expected', noHello(helloMs)), helloMs)
    socket.events.on('closed', ({ code }) => {
      try {
        this.#closed(code)
      } finally {
        leave()
      }
    })
    socket.events.on('alive', () => this.#session?.alive())
    socket.events.on('message', ({ text }) => this.#receive(text))
  }

  #receive(text: string): void {
    const debtMs = this.#frames.spend()
    if (debtMs > 0) this.#holdFor(debtMs)
    const read = readNodeFrame(text)
    if ('refusal' in read) this.#refuse(read.refusal)
    else this.#handle(read.frame)
  }

  #handle(frame: NodeFrame | PingFrame): void {
    const session = this.#session
    if (frame.type === 'ping') {
      session?.alive()
      this.#socket.send('{"type":"pong"}')
    } else if (frame.type === 'hello') {
      if (session === undefined) this.#hello(frame)
      else this.#refuse(helloTwice)
    } else if (session === undefined) {
      this.#end('hello_expected', `The first message must be hello, not ${frame.type}.`)
    } else {
      session.receive(frame)
      if (session.isFull && this.#holds === 0) this.#holdUntil(session.whenReady())
    }
  }

  #hello(hello: Extract<NodeFrame, { readonly type: 'hello' }>): void {
    this.#clock.clearTimeout(this.#helloTimer)
    if (this.#nodes?.includes(hello.nodeId) === false) this.#end('forbidden', wrongNode(hello.nodeId))
    else this.#session = this.#connections.connect(hello, this.#link)
  }

  /** Drops a frame. An invalid frame still shows that the node is alive. */
  #refuse({ code, message, isFatal }: FrameRefusal): void {
    const session = this.#session
    if (isFatal || (session === undefined && code !== 'unknown_type')) {
      this.#end(code, message)
      return
    }
    session?.alive()
    this.#refusals ??= new TokenBucket({ ...refusals, clock: this.#clock })
    if (this.#refusals.spend() > 0) {
      this.#sendError('too_many', tooManyInvalid)
      this.#socket.close(closeCodes.policy, tooManyInvalid)
    } else this.#sendError(code, message)
  }

  /** Sends the reason and closes the socket. */
  #end(code: string, message: string): void {
    this.#sendError(code, message)
    this.#socket.close(nodeCloseCodes.badHello, message)
  }

  #sendError(code: string, message: string): void {
    const frame: ServerFrame = { type: 'error', code, message }
    this.#socket.send(JSON.stringify(frame))
  }

  #holdFor(ms: number): void {
    const { promise, resolve } = Promise.withResolvers<void>()
    this.#clock.setTimeout(resolve, ms)
    this.#holdUntil(promise)
  }

  #holdUntil(ready: Promise<void>): void {
    if (this.#holds++ === 0) this.#socket.pause()
    const go = () => {
      if (--this.#holds === 0 && !this.#isOver) this.#socket.resume()
    }
    ready.then(go, go)
  }

  #closed(code: number): void {
    this.#isOver = true
    this.#clock.clearTimeout(this.#helloTimer)
    this.#session?.closed(`Its socket closed with ${code}.`)
  }
}

const tooManyInvalid = 'The node sent too many invalid messages.'

const helloTwice: FrameRefusal = {
  code: 'hello_twice',
  message: 'This socket has sent hello already. Send update to change the node.',
  isFatal: false,
}

function wrongNode(nodeId: string): string {
  return `This token may not connect as the node ${JSON.stringify(nodeId)}: it is bound to other nodes.`
}

function noHello(ms: number): string {
  return `The node sent no hello within ${ms} ms.`
}
