import { type Backoff, resolveBackoff } from '../../../core/backoff.ts'
import { within } from '../../../core/clock.ts'
import type { Duration } from '../../../core/duration.ts'
import { invalidArgument, SignalboxError } from '../../../core/errors.ts'
import type { EventSource } from '../../../core/events.ts'
import { createId } from '../../../core/ids.ts'
import { callable, duration, onlyKeys, requireUrl, text, whole } from '../../../core/options.ts'
import {
  frameLimits,
  type Labels,
  type NodeLoad,
  nodesPath,
  type ServiceOffer,
} from '../../contract/index.ts'
import { maxServers } from '../client-options.ts'
import type { NodeAddress } from './node-socket.ts'
import type { NodeTaskEvent } from './node-tasks.ts'

/** A task that a node runs. */
export interface NodeTask {
  readonly taskId: string
  /** Rises with each try; the server refuses the result of an older one. */
  readonly attempt: number
  readonly service: string
  readonly payload: unknown
  /** When the server gives up the task, in epoch milliseconds of the server's clock. */
  readonly deadlineAt: number | null
}

/** The second argument of a handler. */
export interface NodeTaskContext {
  /**
   * Aborts when the task is cancelled or moves to another node, or the node closes. Stop then: the result is dropped.
   */
  readonly signal: AbortSignal
  /** Reports progress, from 0 to 100. The node sends at most ten reports a second. */
  progress(percent: number | null | TaskProgress, note?: string): void
}

/** The progress of a task. */
export interface TaskProgress {
  readonly percent?: number | null | undefined
  readonly note?: string | null | undefined
}

/**
 * Runs a task. The returned value is the output, any JSON value. A thrown error fails the attempt, and another attempt
 * follows unless the error has `retryable: false`. The task keeps the `code` of the error.
 */
export type TaskHandler = (task: NodeTask, context: NodeTaskContext) => unknown

/** A service as a node offers it. */
export interface NodeService {
  readonly name: string
  /** How many tasks of the service may run at once. */
  readonly slots: number
  /** The abilities of the service: `{ language: ['zh', 'en'] }`. @default none */
  readonly tags?: Readonly<Record<string, readonly string[]>> | undefined
}

/** The options of a node. */
export interface ConnectNodeOptions {
  /** The stable id of the node: a new instance with the same id replaces the old one. */
  readonly nodeId: string
  readonly services: readonly NodeService[]
  readonly onTask: TaskHandler
  /** Labels that tasks can require. @default none */
  readonly labels?: Labels | undefined
  /** @default none, which a server on the loopback may allow */
  readonly token?: string | undefined
  /** Only callers with a token of every namespace, or without a token, may choose. @default the token's */
  readonly namespace?: string | undefined
  /**
   * The id of this instance. An instance with the same id resumes after a lost connection. @default a new id per call
   */
  readonly instanceId?: string | undefined
  /** Measures the load for each heartbeat: fractions from 0 to 1. @default not measured */
  readonly load?: (() => Partial<NodeLoad> | Promise<Partial<NodeLoad>>) | undefined
  /** How long the first connection may take, with all its tries. @default 30_000 */
  readonly connectMs?: Duration | undefined
  /** The wait before the next try. @default { baseMs: 250, factor: 2, jitter: 0.5, maxMs: 15_000 } */
  readonly backoff?: Partial<Backoff> | undefined
  /** The most results without a confirmation; beyond that the node rejects new tasks. @default 10_000 */
  readonly maxUnsettled?: number | undefined
  /** Closes the node. */
  readonly signal?: AbortSignal | undefined
  /** The WebSocket class. @default the platform's */
  readonly WebSocket?: WebSocketMaker | undefined
}

/** The part of a platform's `WebSocket` that a node uses. */
export interface PlatformSocket {
  readonly readyState: number
  readonly bufferedAmount: number
  onopen: ((event: never) => void) | null
  onmessage: ((event: { readonly data: unknown }) => void) | null
  onerror: ((event: never) => void) | null
  onclose: ((event: { readonly code: number; readonly reason: string }) => void) | null
  send(text: string): void
  close(code?: number, reason?: string): void
}

export type WebSocketMaker = new (url: string, protocols: string[]) => PlatformSocket

/** Checked options, with defaults. */
export interface ResolvedNodeOptions
  extends Pick<ConnectNodeOptions, 'nodeId' | 'onTask' | 'token' | 'namespace' | 'load' | 'signal'> {
  /** The servers, each once. */
  readonly addresses: readonly NodeAddress[]
  readonly instanceId: string
  readonly services: readonly ServiceOffer[]
  readonly labels: Labels
  readonly connectMs: number
  readonly backoff: Backoff
  readonly maxUnsettled: number
  readonly WebSocket: WebSocketMaker
}

const nodeBackoff: Backoff = { baseMs: 250, factor: 2, jitter: 0.5, maxMs: 15_000 }

const keys = [
  'nodeId',
  'services',
  'onTask',
  'labels',
  'token',
  'namespace',
  'instanceId',
  'load',
  'connectMs',
  'backoff',
  'maxUnsettled',
  'signal',
  'WebSocket',
]

export function resolveNodeOptions(
  url: string | readonly string[] | undefined,
  options: ConnectNodeOptions,
): ResolvedNodeOptions {
  requireUrl('connectNode', url)
  onlyKeys('connectNode', options, keys)
  const { token, namespace, instanceId, load, connectMs = 30_000, backoff, signal } = options
  return Object.freeze({
    addresses: resolveAddresses(url),
    nodeId: text('nodeId', options.nodeId),
    instanceId: instanceId === undefined ? createId() : text('instanceId', instanceId),
    services: resolveServices(options.services),
    labels: resolveLabels(options.labels ?? {}),
    onTask: callable('onTask', options.onTask),
    token,
    namespace: namespace === undefined ? undefined : text('namespace', namespace),
    load: load === undefined ? undefined : callable('load', load),
    connectMs: duration('connectMs', connectMs, { min: 1, max: 2 ** 31 - 1 }),
    backoff: resolveBackoff('backoff', backoff, nodeBackoff),
    maxUnsettled: whole('maxUnsettled', options.maxUnsettled ?? 10_000, { min: 1 }),
    signal,
    WebSocket: options.WebSocket ?? platformWebSocket(),
  })
}

/** Checks the services as a server does, so that a mistake throws here instead of closing the socket. */
export function resolveServices(services: unknown): readonly ServiceOffer[] {
  if (!Array.isArray(services)) throw invalidArgument('services must be a list of { name, slots, tags }.')
  const offers = services.map(({ name, slots, tags = {} }: NodeService) => ({
    name: text('services[].name', name),
    slots: whole('services[].slots', slots, { min: 1, max: frameLimits.maxSlots }),
    tags: resolveTags(tags),
  }))
  if (new Set(offers.map(({ name }) => name)).size === offers.length) return offers
  throw invalidArgument('services has two services with the same name. Names must be unique.')
}

/** Checks the labels as a server does. */
export function resolveLabels(labels: unknown): Labels {
  const entries = entriesOf('labels', labels, frameLimits.maxLabels)
  for (const [label, value] of entries) {
    const isText = typeof value === 'string' && value.length <= 191
    if (isText || typeof value === 'boolean' || Number.isFinite(value)) continue
    throw invalidArgument(
      `labels[${JSON.stringify(label)}] must be a text of at most 191 characters, a number, true or false.`,
    )
  }
  return Object.fromEntries(entries) as Labels
}

function resolveTags(tags: unknown): ServiceOffer['tags'] {
  const entries = entriesOf('services[].tags', tags, frameLimits.maxTags)
  return Object.fromEntries(
    entries.map(([tag, values]) => {
      if (Array.isArray(values) && values.length <= frameLimits.maxTagValues)
        return [tag, values.map((value) => text(`services[].tags.${tag}[]`, value))]
      throw invalidArgument(
        `services[].tags.${tag} must be a list of at most ${frameLimits.maxTagValues} texts.`,
      )
    }),
  )
}

function entriesOf(name: string, value: unknown, max: number): readonly [string, unknown][] {
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
    const entries = Object.entries(value).filter(([, item]) => item !== undefined)
    if (entries.length <= max) return entries
  }
  throw invalidArgument(`${name} must be an object of at most ${max} properties.`)
}

function resolveAddresses(urls: unknown): readonly NodeAddress[] {
  const list: readonly unknown[] = Array.isArray(urls) ? urls : [urls]
  if (list.length === 0 || list.length > maxServers)
    throw invalidArgument(`connectNode takes 1 to ${maxServers} servers, not ${list.length}.`)
  const byUrl = new Map(list.map(addressOf).map((address) => [address.url, address]))
  return [...byUrl.values()]
}

/** Reads `ws://host`, `http://host` or the whole address of the socket. */
function addressOf(url: unknown): NodeAddress {
  const parsed = typeof url === 'string' && URL.canParse(url) ? new URL(url) : undefined
  const isBare =
    parsed?.username === '' && parsed.password === '' && parsed.search === '' && parsed.hash === ''
  if (parsed === undefined || !isBare || !/^(ws|http)s?:$/.test(parsed.protocol)) {
    // The message does not quote the address: it may contain a secret.
    throw new SignalboxError(
      'invalid_argument',
      `A node connects to ws://… or wss://…, such as "ws://127.0.0.1:7420${nodesPath}", without user, password, "?" or "#". A token is an option: { token }.`,
    )
  }
  const path = parsed.pathname.replace(/\/+$/, '')
  const before = path.endsWith(nodesPath) ? path.slice(0, -nodesPath.length) : path
  const isSafe = parsed.protocol === 'wss:' || parsed.protocol === 'https:'
  const rest = `://${parsed.host}${before}`
  return { url: `${isSafe ? 'wss' : 'ws'}${rest}${nodesPath}`, base: `${isSafe ? 'https' : 'http'}${rest}` }
}

function platformWebSocket(): WebSocketMaker {
  const { WebSocket } = globalThis as { readonly WebSocket?: unknown }
  if (typeof WebSocket === 'function') return WebSocket as WebSocketMaker
  throw invalidArgument('This platform has no WebSocket. Pass one as the option WebSocket.')
}

/** A heartbeat waits for the load at most this long, and at most its interval. */
const maxMeasureMs = 5_000

/** Measures the load, limited to its range; null for values that cannot be measured in time. */
export async function measureLoad(load: ResolvedNodeOptions['load'], heartbeatMs: number): Promise<NodeLoad> {
  try {
    const measured = await within(Math.min(maxMeasureMs, heartbeatMs), load?.(), () => undefined)
    const { cpu, gpu, memory } = measured ?? {}
    return { cpu: fraction(cpu), gpu: fraction(gpu), memory: fraction(memory) }
  } catch {
    return { cpu: null, gpu: null, memory: null }
  }
}

function fraction(value: unknown): number | null {
  return typeof value === 'number' && !Number.isNaN(value) ? Math.min(1, Math.max(0, value)) : null
}

/**
 * The node's side of dispatch: it offers services, gets tasks and sends results. A node outlives its connections:
 *
 *     connect ──welcome──▶ tasks ──lost──▶ wait, longer each time ──▶ connect, as the same instance
 *        └── token refused, another instance took over: the end
 *
 * With several servers the node changes to the next one, and waits after it has tried all of them. Tasks continue while
 * the connection is lost. The node keeps their results until a server confirms that they are stored.
 */
export interface NodeConnection extends AsyncDisposable {
  readonly nodeId: string
  readonly instanceId: string
  readonly status: 'connecting' | 'connected' | 'closed'
  /** Fences this instance from earlier ones; null before the first welcome. */
  readonly epoch: number | null
  /** Tasks that run, or ended but are not confirmed yet. */
  readonly taskIds: readonly string[]
  readonly events: EventSource<NodeConnectionEvents>
  /** Changes the services or labels that the node offers. */
  update(change: {
    readonly services?: readonly NodeService[] | undefined
    readonly labels?: Labels | undefined
  }): void
  /** Takes no new tasks. Resolves when all its tasks have ended and are confirmed. The node stays connected. */
  drain(): Promise<void>
  /**
   * Disconnects. Running tasks are aborted and move to other nodes. With `graceMs`, drains first, at most that long.
   */
  close(options?: { readonly graceMs?: Duration | undefined }): Promise<void>
  /** Resolves at the end, with the error if `close` was not the reason. */
  readonly closed: Promise<SignalboxError | null>
}

/** The events of a node. */
export interface NodeConnectionEvents {
  connected: { readonly epoch: number; readonly resumed: boolean; readonly url: string }
  disconnected: {
    readonly code: number
    readonly reason: string
    readonly retryInMs: number
    /** The server of the connection that ended or failed. */
    readonly url: string
  }
  /** The server refused a frame. */
  problem: { readonly code: string; readonly message: string }
  /** An operator drains this node: it gets no new tasks. */
  draining: undefined
  task: NodeTaskEvent
  closed: { readonly error: SignalboxError | null }
}
