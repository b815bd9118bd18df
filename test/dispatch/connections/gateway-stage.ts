import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { WebSocket } from 'ws'
import { SignalboxError } from '../../../src/core/errors.ts'
import { createNotifier, type Notifier } from '../../../src/core/notifier.ts'
import type {
  NodeConnector,
  NodeFrame,
  NodeLink,
  ServerFrame,
  ServiceOffer,
} from '../../../src/dispatch/index.ts'
import { nodesPath } from '../../../src/http/contract/node-frames.ts'
import type { Principal } from '../../../src/http/server/call.ts'
import { checkSite } from '../../../src/http/server/request/site-guard.ts'
import { createNodeGateway, type NodeGatewayOptions } from '../../../src/http/server/sockets/node-gateway.ts'
import { Upgrades, type UpgradesOptions } from '../../../src/http/server/sockets/upgrade.ts'
import { within } from '../../support/deadline.ts'

/** A node as the server sees it: its hello, what it said since, and how to speak to it. */
export interface SeenNode {
  readonly hello: Extract<NodeFrame, { readonly type: 'hello' }>
  readonly link: NodeLink
  readonly frames: NodeFrame[]
  aliveCount: number
  closedFor: string | undefined
  isFull: boolean
  ready: PromiseWithResolvers<void>
}

/** Node connections that welcome every node and record its frames. */
export class FakeConnections implements NodeConnector {
  heartbeatMs: number
  readonly nodes: SeenNode[] = []
  readonly changed: Notifier = createNotifier()
  onFrame: (node: SeenNode, frame: NodeFrame) => void = () => {}

  epoch = 1

  constructor(heartbeatMs = 15_000) {
    this.heartbeatMs = heartbeatMs
  }

  connect: NodeConnector['connect'] = (hello, link) => {
    const node: SeenNode = {
      hello,
      link,
      frames: [],
      aliveCount: 0,
      closedFor: undefined,
      isFull: false,
      ready: Promise.withResolvers<void>(),
    }
    const { changed } = this
    const onFrame = (frame: NodeFrame) => this.onFrame(node, frame)
    this.nodes.push(node)
    link.send({ type: 'welcome', epoch: this.epoch, heartbeatMs: this.heartbeatMs })
    this.changed.wake()
    return {
      receive(frame) {
        node.frames.push(frame)
        onFrame(frame)
        changed.wake()
      },
      alive() {
        node.aliveCount++
        changed.wake()
      },
      closed(reason) {
        node.closedFor = reason
        changed.wake()
      },
      get isFull() {
        return node.isFull
      },
      whenReady: () => node.ready.promise,
    }
  }

  /** Waits until it is so. */
  until(what: string, isSo: () => boolean): Promise<void> {
    const wait = async () => {
      while (!isSo()) await this.changed.wait()
    }
    return within(20_000, what, wait())
  }
}

/** The callers, by secret: the namespace before the dash, and after an @ the nodes of a bound token. */
function principalOf(secret: string): Principal {
  const [namespace = 'default'] = secret.split('-')
  const [, nodes] = secret.split('@')
  const bound = nodes === undefined ? {} : { nodes: nodes.split('+') }
  return { id: secret, scope: 'work', ...bound, namespace, everyNamespace: false }
}

export interface GatewayStage extends AsyncDisposable {
  readonly port: number
  readonly url: string
  readonly connections: FakeConnections
  connectionsOf(namespace: string): FakeConnections
  readonly errors: unknown[]
  /** Namespaces entered and not left. */
  entered(): number
  /** Cuts every connection, without a goodbye. */
  cut(): void
  open(options?: { token?: string; autoPong?: boolean }): Promise<Peer>
}

/** A client that sends exactly what it is given. */
export interface Peer {
  readonly ws: WebSocket
  readonly heard: ServerFrame[]
  say(frame: object | string): void
  hello(nodeId?: string, more?: object): void
  /** The next frame that has not been taken. */
  next(): Promise<ServerFrame>
  readonly closed: Promise<{ readonly code: number; readonly reason: string }>
}

export const service: ServiceOffer = { name: 'nmt', slots: 2, tags: { pair: ['zh>en'] } }

export async function gatewayStage(
  options: Partial<NodeGatewayOptions> = {},
  upgrades: Partial<UpgradesOptions> = {},
  /** The port; 0 takes any. */
  at = 0,
): Promise<GatewayStage> {
  const allConnections = new Map<string, FakeConnections>()
  const errors: unknown[] = []
  let enteredCount = 0
  const connectionsOf = (namespace: string) => {
    const connections = allConnections.get(namespace) ?? new FakeConnections()
    allConnections.set(namespace, connections)
    return connections
  }
  const gateway = createNodeGateway({
    enter({ namespace }) {
      enteredCount++
      const connections = connectionsOf(namespace)
      const leave = () => {
        enteredCount--
        connections.changed.wake()
      }
      return { connections, leave }
    },
    ...options,
  })
  const server = createServer((request, response) => {
    const isKnown = request.headers.authorization !== undefined
    response.writeHead(isKnown ? 200 : 401, {
      'content-type': isKnown ? 'application/json' : 'application/problem+json',
    })
    const problem = {
      type: 'about:blank',
      title: 'No',
      status: 401,
      code: 'unauthorized',
      detail: 'No token.',
    }
    response.end(JSON.stringify(isKnown ? { protocol: 1, heartbeatMs: 15_000 } : problem))
  })
  const sockets = new Set<Socket>()
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })
  server.listen(at, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const all = new Upgrades({
    authenticator: {
      async authenticate(incoming) {
        const secret = /^Bearer (.+)$/.exec(incoming.header('authorization') ?? '')?.[1]
        if (secret === undefined) throw new SignalboxError('unauthorized', 'No token came.')
        return principalOf(secret)
      },
      watch: () => () => {},
    },
    checkSite: (incoming) => checkSite(incoming, undefined, new Set([`127.0.0.1:${port}`])),
    gateways: new Map([[nodesPath, gateway]]),
    closeTimeoutMs: 300,
    onError: (error) => errors.push(error),
    ...upgrades,
  })
  all.attach(server)
  const url = `ws://127.0.0.1:${port}${nodesPath}`
  return {
    port,
    url,
    connections: connectionsOf('default'),
    connectionsOf,
    errors,
    entered: () => enteredCount,
    cut() {
      for (const socket of sockets) socket.destroy()
    },
    async open({ token = 'default', autoPong = true } = {}) {
      const headers = { authorization: `Bearer ${token}` }
      const peer = peerOf(new WebSocket(url, { headers, autoPong } as object))
      await once(peer.ws, 'open')
      return peer
    },
    async [Symbol.asyncDispose]() {
      await all.close()
      for (const socket of sockets) socket.destroy()
      server.close()
    },
  }
}

function peerOf(ws: WebSocket): Peer {
  const heard: ServerFrame[] = []
  const notifier = createNotifier()
  let taken = 0
  ws.on('error', () => {})
  ws.on('message', (data) => {
    heard.push(JSON.parse(String(data)))
    notifier.wake()
  })
  // Not `once`, which an error before the close would end.
  const closed = new Promise<{ code: number; reason: string }>((resolve) => {
    ws.once('close', (code, reason) => resolve({ code, reason: String(reason) }))
  })
  return {
    ws,
    heard,
    say: (frame) => ws.send(typeof frame === 'string' ? frame : JSON.stringify(frame)),
    hello(nodeId = 'n1', more = {}) {
      this.say({ type: 'hello', nodeId, instanceId: `${nodeId}-1`, services: [service], ...more })
    },
    next() {
      const wait = async () => {
        while (heard.length <= taken) await notifier.wait()
        return heard[taken++]!
      }
      return within(10_000, 'a frame', wait())
    },
    // The deadline starts with the wait: otherwise it could pass during another test.
    get closed() {
      return within(20_000, 'the end of the socket', closed)
    },
  }
}
