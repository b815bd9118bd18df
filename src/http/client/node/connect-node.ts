import type { Duration } from '../../../core/duration.ts'
import { isSignalboxError, SignalboxError } from '../../../core/errors.ts'
import { createEvents, type EventSource, type Events } from '../../../core/events.ts'
import { duration } from '../../../core/options.ts'
import {
  type Labels,
  maxFrameBytes,
  type NodeFrame,
  nodeInfo,
  nodeProtocol,
  type ServerFrame,
  type ServiceOffer,
} from '../../contract/index.ts'
import { createClient } from '../client.ts'
import { pause } from '../retry.ts'
import {
  type ConnectNodeOptions,
  measureLoad,
  type NodeConnection,
  type NodeConnectionEvents,
  type ResolvedNodeOptions,
  resolveLabels,
  resolveNodeOptions,
  resolveServices,
} from './node-options.ts'
import { finalEnd, NodeAddresses, NodeSocket, type SocketEnd } from './node-socket.ts'
import { NodeTasks } from './node-tasks.ts'

/** After a connection that lasted this long, the next wait is short again. */
const goodMs = 5_000

/**
 * Connects a node to a server, or to one of several that share a store. Resolves when a server accepts the node.
 * Throws `unauthorized`, `forbidden`, `conflict` (another instance took over), `timeout`.
 */
export async function connectNode(
  url: string | readonly string[] | undefined,
  options: ConnectNodeOptions,
): Promise<NodeConnection> {
  const resolved = resolveNodeOptions(url, options)
  const node = new ConnectedNode(resolved)
  await node.begin()
  return node
}

class ConnectedNode implements NodeConnection {
  readonly #options: ResolvedNodeOptions
  readonly #events: Events<NodeConnectionEvents> = createEvents<NodeConnectionEvents>()
  readonly #tasks: NodeTasks
  readonly #addresses: NodeAddresses
  readonly #closing = new AbortController()
  readonly #closed = Promise.withResolvers<SignalboxError | null>()
  readonly #began = Promise.withResolvers<void>()
  #services: readonly ServiceOffer[]
  #labels: Labels
  #socket: NodeSocket | undefined
  #isWelcome = false
  #isClosed = false
  #epoch: number | null = null
  /** `task.assign`s received on this connection. */
  #assignCount = 0
  #heartbeat: ReturnType<typeof setInterval> | undefined
  #heartbeatMs = 15_000
  #isMeasuring = false
  /** Another heartbeat must follow the current one. */
  #needsHeartbeat = false
  /** The last problem that the server reported on this connection. */
  #lastProblem: { readonly code: string; readonly message: string } | undefined
  /** Why the last connection failed, according to a plain HTTP request. */
  #lastRefusal: string | undefined

  constructor(options: ResolvedNodeOptions) {
    this.#options = options
    this.#services = options.services
    this.#labels = options.labels
    this.#tasks = new NodeTasks({
      onTask: options.onTask,
      maxUnsettled: options.maxUnsettled,
      slotsOf: (service) => this.#services.find(({ name }) => name === service)?.slots,
      send: (text) => this.#isWelcome && this.#socket!.send(text),
      onEvent: (event) => this.#events.emit('task', event),
      onSlotsFreed: () => this.#onSlotsFreed(),
    })
    this.#addresses = new NodeAddresses(options.addresses, options.backoff)
  }

  get nodeId(): string {
    return this.#options.nodeId
  }

  get instanceId(): string {
    return this.#options.instanceId
  }

  get status(): 'connecting' | 'connected' | 'closed' {
    if (this.#isClosed) return 'closed'
    return this.#isWelcome ? 'connected' : 'connecting'
  }

  get epoch(): number | null {
    return this.#epoch
  }

  get taskIds(): readonly string[] {
    return this.#tasks.taskIds
  }

  get events(): EventSource<NodeConnectionEvents> {
    return this.#events
  }

  get closed(): Promise<SignalboxError | null> {
    return this.#closed.promise
  }

  /** Connects for the first time, or throws. */
  async begin(): Promise<void> {
    const { signal, connectMs, addresses } = this.#options
    signal?.throwIfAborted()
    const abort = () => void this.close()
    signal?.addEventListener('abort', abort, { once: true })
    void this.closed.then((error) => {
      signal?.removeEventListener('abort', abort)
      this.#began.reject(error ?? (signal?.aborted ? signal.reason : closedError()))
    })
    const timer = setTimeout(() => {
      const problem = this.#lastProblem?.message ?? this.#lastRefusal
      const why = problem === undefined ? '' : ` The last problem: ${problem}`
      const where = addresses.map(({ url }) => url).join(', ')
      this.#finish(
        new SignalboxError('timeout', `${where} did not accept the node within ${connectMs} ms.${why}`),
      )
    }, connectMs)
    void this.#keepConnected()
    try {
      await this.#began.promise
    } finally {
      clearTimeout(timer)
    }
  }

  update({ services, labels }: Parameters<NodeConnection['update']>[0]): void {
    const offers = services === undefined ? this.#services : resolveServices(services)
    // Checks both before it sets either.
    this.#labels = labels === undefined ? this.#labels : resolveLabels(labels)
    this.#services = offers
    this.#sendOffer()
  }

  async drain(): Promise<void> {
    this.#tasks.isDraining = true
    this.#sendOffer()
    await this.#tasks.whenIdle()
  }

  async close({ graceMs = 0 }: { readonly graceMs?: Duration | undefined } = {}): Promise<void> {
    const withinMs = duration('graceMs', graceMs)
    if (withinMs > 0 && !this.#isClosed) {
      const waited = pause(withinMs, this.#closing.signal).catch(() => {})
      await Promise.race([this.drain(), waited])
    }
    this.#finish(null)
    await this.closed
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  /** Never rejects. */
  async #keepConnected(): Promise<void> {
    const { signal } = this.#closing
    while (!this.#isClosed) {
      const { url } = this.#addresses.current
      const begunAt = performance.now()
      const end = await this.#connection(url)
      if (this.#isClosed) return
      const final = finalEnd(end, this.#lastProblem) ?? (await this.#refusal(end))
      if (final !== undefined) return this.#finish(final)
      const { code, reason, wasWelcome } = end
      const wasGood = wasWelcome && performance.now() - begunAt >= goodMs
      const retryInMs = this.#addresses.next({ code, wasWelcome, wasGood })
      this.#events.emit('disconnected', { code, reason, retryInMs, url })
      await pause(retryInMs, signal).catch(() => {})
    }
  }

  /** One connection, to its end. */
  #connection(url: string): Promise<SocketEnd & { readonly wasWelcome: boolean }> {
    const { promise, resolve } = Promise.withResolvers<SocketEnd & { readonly wasWelcome: boolean }>()
    this.#lastProblem = undefined
    this.#assignCount = 0
    try {
      this.#socket = new NodeSocket({
        ...this.#options,
        url,
        onOpen: () => this.#hello(),
        onFrame: (frame) => this.#receive(frame),
        onEnd: (end) => {
          const wasWelcome = this.#isWelcome
          this.#isWelcome = false
          clearInterval(this.#heartbeat)
          resolve({ ...end, wasWelcome })
        },
      })
    } catch (error) {
      const reason = String((error as Error)?.message)
      resolve({ code: 1006, reason, wasOpen: false, wasWelcome: false })
    }
    return promise
  }

  #hello(): void {
    const { nodeId, instanceId } = this.#options
    this.#sendWithTasks({
      type: 'hello',
      nodeId,
      instanceId,
      services: this.#offered(),
      labels: this.#labels,
      running: this.#tasks.listed,
      protocol: nodeProtocol,
    })
  }

  #receive(frame: ServerFrame): void {
    switch (frame.type) {
      case 'welcome':
        this.#onWelcome(frame)
        break
      case 'task.assign':
        this.#assignCount++
        this.#tasks.assign(frame)
        break
      case 'task.cancel':
        this.#tasks.cancel(frame)
        break
      case 'task.stale':
        this.#tasks.stale(frame)
        break
      case 'task.settled':
        this.#tasks.settled(frame)
        break
      case 'drain':
        this.#events.emit('draining', undefined)
        break
      case 'error':
        this.#lastProblem = { code: String(frame.code), message: String(frame.message) }
        this.#events.emit('problem', this.#lastProblem)
    }
  }

  #onWelcome({ epoch, heartbeatMs }: Extract<ServerFrame, { readonly type: 'welcome' }>): void {
    if (this.#isWelcome) return
    const resumed = this.#epoch === epoch
    this.#isWelcome = true
    this.#epoch = epoch
    this.#socket!.welcomed()
    this.#heartbeatMs = Math.min(Math.max(Number(heartbeatMs) || 15_000, 50), 600_000)
    this.#heartbeat = setInterval(() => void this.#beat(), this.#heartbeatMs)
    this.#tasks.repeatAll()
    this.#events.emit('connected', { epoch, resumed, url: this.#addresses.current.url })
    this.#began.resolve()
    void this.#beat()
  }

  /** Never rejects. */
  async #beat(): Promise<void> {
    this.#socket!.check()
    await this.#sendHeartbeat()
  }

  /** A revoked task freed its slots. The server can use them again only after a heartbeat reports it. */
  #onSlotsFreed(): void {
    // Tasks that end while the load is measured share one heartbeat.
    if (this.#isMeasuring) this.#needsHeartbeat = true
    else void this.#sendHeartbeat()
  }

  /** Never rejects. */
  async #sendHeartbeat(): Promise<void> {
    const socket = this.#socket
    if (this.#isMeasuring || !this.#isWelcome || socket === undefined || socket.isCrowded) return
    this.#isMeasuring = true
    this.#needsHeartbeat = false
    // Reads the count before it measures the load, so tasks assigned meanwhile are not counted.
    const countedSeq = this.#assignCount
    const running = this.#tasks.listed
    const load = await measureLoad(this.#options.load, this.#heartbeatMs)
    this.#isMeasuring = false
    if (socket === this.#socket && this.#isWelcome) {
      this.#sendWithTasks({ type: 'heartbeat', load, running, countedSeq })
      this.#tasks.repeatOld()
    }
    if (this.#needsHeartbeat) void this.#sendHeartbeat()
  }

  #sendOffer(): void {
    if (this.#isWelcome) this.#send({ type: 'update', services: this.#offered(), labels: this.#labels })
  }

  /** A draining node offers no services, even after a reconnect. */
  #offered(): readonly ServiceOffer[] {
    return this.#tasks.isDraining ? [] : this.#services
  }

  /** Sends a frame without its list of running tasks if the frame is too long. The server then uses its own records. */
  #sendWithTasks(frame: Extract<NodeFrame, { readonly running: unknown }>): void {
    const text = JSON.stringify(frame)
    const fits = text.length * 3 <= maxFrameBytes || new TextEncoder().encode(text).length <= maxFrameBytes
    this.#socket?.send(fits ? text : JSON.stringify({ ...frame, running: null }))
  }

  #send(frame: NodeFrame): void {
    this.#socket?.send(JSON.stringify(frame))
  }

  /** Finds out why a server refused the WebSocket. Platforms do not report the reason, so the node asks over HTTP. */
  async #refusal({ wasOpen }: SocketEnd): Promise<SignalboxError | undefined> {
    if (wasOpen) return undefined
    const { token, namespace } = this.#options
    const { base } = this.#addresses.current
    try {
      using client = createClient(base, { token, namespace, retries: 0 })
      await client.call(nodeInfo, { signal: this.#closing.signal })
      this.#lastRefusal =
        'The server answers HTTP requests but does not open WebSockets. A proxy in front of it must pass on the headers Upgrade and Connection.'
      return undefined
    } catch (error) {
      if (!isSignalboxError(error)) return undefined
      if (error.code === 'unauthorized' || error.code === 'forbidden') return error
      this.#lastRefusal = error.message
      // With several servers, another one may know the route.
      const neverWas = this.#epoch === null
      return error.code === 'not_found' && neverWas && this.#addresses.size === 1 ? error : undefined
    }
  }

  #finish(error: SignalboxError | null): void {
    if (this.#isClosed) return
    this.#isClosed = true
    this.#closing.abort(closedError())
    clearInterval(this.#heartbeat)
    if (this.#isWelcome && error === null) this.#send({ type: 'bye' })
    this.#isWelcome = false
    this.#tasks.isDraining = true
    this.#tasks.dropAll('The node was closed.')
    const goodbye = this.#socket?.close(1000, 'bye') ?? Promise.resolve()
    void goodbye.then(() => {
      this.#events.emit('closed', { error })
      this.#closed.resolve(error)
    })
  }
}

function closedError(): SignalboxError {
  return new SignalboxError('closed', 'This node is closed. Call connectNode again.')
}
