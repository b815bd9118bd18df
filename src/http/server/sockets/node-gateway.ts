import { type Clock, systemClock } from '../../../core/clock.ts'
import type { NodeConnector, NodeFrame, NodeLink, NodeSession, ServerFrame } from '../../../dispatch/index.ts'
import { nodeCloseCodes, type PingFrame } from '../../contract/index.ts'
import type { Principal } from '../call.ts'
import { type FrameRefusal, Pace, readNodeFrame } from './gateway-frames.ts'
import { closeCodes, type GuardedSocket } from './guarded-socket.ts'
import type { Gateway } from './upgrade.ts'

/**
 * Where nodes come in. Each socket is one node's, named by its `hello` and by nothing it says later, in the namespace of
 * its token:
 *
 *     socket ──hello within 10 s──▶ connections.connect ──▶ session ◀── frames, pongs, the end
 *        └── anything else first: `error`, closed
 *
 * A frame that is not understood is answered with an `error` and dropped. A node that sends too fast is not read for a
 * while. A node that sends mostly nonsense is disconnected. No node delays another.
 */
export interface NodeGatewayOptions {
  /** The node connections of the principal's namespace, and how to leave it when the socket has closed. */
  readonly enter: (principal: Principal) => EnteredNamespace
  /** How long a socket may take to say who it is. @default 10_000 */
  readonly helloMs?: number
  /** Frames a second that a socket may send in the long run; it is not read while it is ahead. @default 10_000 */
  readonly framesPerSecond?: number
  /** Frames that it may send at once. @default 20_000 */
  readonly frameBurst?: number
  readonly clock?: Clock
}

/** The node connections of a namespace, and how to leave it. */
export interface EnteredNamespace {
  readonly connections: NodeConnector
  leave(): void
}

/** How many refused frames are answered at once, and how many a second: more is nonsense. */
const refusals = { perSecond: 2, burst: 64 }

/** Makes the gateway at `nodesPath`. */
export function createNodeGateway(options: NodeGatewayOptions): Gateway {
  return {
    scope: 'work',
    accept: (socket, principal) => void new NodeDoor(socket, principal, options),
  }
}

/** One node's socket. */
class NodeDoor {
  readonly #socket: GuardedSocket
  readonly #connections: NodeConnector
  /** As which nodes it may come in; undefined: as any. */
  readonly #nodes: readonly string[] | undefined
  readonly #link: NodeLink
  readonly #clock: Clock
  readonly #frames: Pace
  /** Made when the first is refused: most sockets never need it. */
  #refusals: Pace | undefined
  #helloTimer: unknown
  #session: NodeSession | undefined
  /** Reasons not to read from it now. */
  #holds = 0
  #isOver = false

  constructor(socket: GuardedSocket, principal: Principal, options: NodeGatewayOptions) {
    const { clock = systemClock, helloMs = 10_000, framesPerSecond = 10_000, frameBurst = 20_000 } = options
    const { connections, leave } = options.enter(principal)
    this.#socket = socket
    this.#connections = connections
    this.#nodes = principal.nodes
    this.#clock = clock
    this.#frames = new Pace({ perSecond: framesPerSecond, burst: frameBurst, clock })
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
    else this.#take(read.frame)
  }

  #take(frame: NodeFrame | PingFrame): void {
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
    if (this.#nodes?.includes(hello.nodeId) === false) this.#end('forbidden', notThatNode(hello.nodeId))
    else this.#session = this.#connections.connect(hello, this.#link)
  }

  /** Nothing of a refused frame is kept. It shows that the node lives. */
  #refuse({ code, message, isFatal }: FrameRefusal): void {
    const session = this.#session
    if (isFatal || (session === undefined && code !== 'unknown_type')) {
      this.#end(code, message)
      return
    }
    session?.alive()
    this.#refusals ??= new Pace({ ...refusals, clock: this.#clock })
    if (this.#refusals.spend() > 0) {
      this.#tell('too_many', nonsense)
      this.#socket.close(closeCodes.policy, nonsense)
    } else this.#tell(code, message)
  }

  /** Tells why, and closes: it cannot get better by itself. */
  #end(code: string, message: string): void {
    this.#tell(code, message)
    this.#socket.close(nodeCloseCodes.badHello, message)
  }

  #tell(code: string, message: string): void {
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

const nonsense = 'Too many messages were not understood.'

const helloTwice: FrameRefusal = {
  code: 'hello_twice',
  message: 'This socket has sent hello already. Send update to change the node.',
  isFatal: false,
}

function notThatNode(nodeId: string): string {
  return `This token may not connect as the node ${JSON.stringify(nodeId)}: it is bound to others.`
}

function noHello(ms: number): string {
  return `No hello came within ${ms} ms.`
}
