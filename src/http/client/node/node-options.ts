import { type Backoff, resolveBackoff } from '../../../core/backoff.ts'
import type { Duration } from '../../../core/duration.ts'
import { SignalboxError } from '../../../core/errors.ts'
import { createId } from '../../../core/ids.ts'
import { callable, duration, onlyKeys, text, whole } from '../../../core/options.ts'
import { requireUrl } from '../../../core/require-url.ts'
import {
  frameLimits,
  type Labels,
  type NodeLoad,
  nodesPath,
  type ServiceOffer,
} from '../../contract/index.ts'
import { maxServers } from '../client-options.ts'
import type { NodeAddress } from './node-addresses.ts'

/** A task in a node's hands. */
export interface NodeTask {
  readonly taskId: string
  /** Rises with each try; what an older one answers is refused. */
  readonly attempt: number
  readonly service: string
  readonly payload: unknown
  /** When the server gives it up, in epoch milliseconds of the server's clock. */
  readonly deadlineAt: number | null
}

/** What a handler gets besides its task. */
export interface NodeTaskContext {
  /** Aborts when the task was cancelled, given to another, or the node was closed: stop, whatever is returned is dropped. */
  readonly signal: AbortSignal
  /** Tells how far it is, from 0 to 100; more than ten a second are thinned out. */
  progress(percent: number | null | TaskProgress, note?: string): void
}

/** How far a task is, as the message about it says it. */
export interface TaskProgress {
  readonly percent?: number | null | undefined
  readonly note?: string | null | undefined
}

/**
 * Does a task; what it returns is the output, any JSON value. What it throws fails the attempt: another one follows
 * unless the error has `retryable: false`. A `code` of its own is kept.
 */
export type TaskHandler = (task: NodeTask, context: NodeTaskContext) => unknown

/** A service as a node offers it. */
export interface NodeService {
  readonly name: string
  /** How many tasks of it may run at once. */
  readonly slots: number
  /** What it is good for: `{ language: ['zh', 'en'] }`. @default none */
  readonly tags?: Readonly<Record<string, readonly string[]>> | undefined
}

/** What a node says of itself. */
export interface ConnectNodeOptions {
  /** Who it is, for good: one that comes with the same id takes over from the one before. */
  readonly nodeId: string
  readonly services: readonly NodeService[]
  readonly onTask: TaskHandler
  /** Free words about it, to be matched by tasks. @default none */
  readonly labels?: Labels | undefined
  /** @default none, which a server on the loopback may allow */
  readonly token?: string | undefined
  /** Only a token of every namespace, or none, may choose. @default the token's */
  readonly namespace?: string | undefined
  /** Which life of the node this is: it resumes after a lost connection. @default a new one per call */
  readonly instanceId?: string | undefined
  /** How loaded it is, asked for each heartbeat: fractions from 0 to 1. @default it does not say */
  readonly load?: (() => Partial<NodeLoad> | Promise<Partial<NodeLoad>>) | undefined
  /** How long the first connection may take, with all its tries. @default 30_000 */
  readonly connectMs?: Duration | undefined
  /** The wait before the next try. @default { baseMs: 250, factor: 2, jitter: 0.5, maxMs: 15_000 } */
  readonly backoff?: Partial<Backoff> | undefined
  /** Results that no server has confirmed yet; beyond that it takes no new task. @default 10_000 */
  readonly maxUnsettled?: number | undefined
  /** Closes the node. */
  readonly signal?: AbortSignal | undefined
  /** Speaks WebSocket. @default the platform's own */
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

export interface ResolvedNodeOptions {
  /** Where it may connect; each once. */
  readonly addresses: readonly NodeAddress[]
  readonly nodeId: string
  readonly instanceId: string
  readonly services: readonly ServiceOffer[]
  readonly labels: Labels
  readonly onTask: TaskHandler
  readonly token: string | undefined
  readonly namespace: string | undefined
  readonly load: (() => Partial<NodeLoad> | Promise<Partial<NodeLoad>>) | undefined
  readonly connectMs: number
  readonly backoff: Backoff
  readonly maxUnsettled: number
  readonly signal: AbortSignal | undefined
  readonly WebSocket: WebSocketMaker
}

export const nodeBackoff: Backoff = { baseMs: 250, factor: 2, jitter: 0.5, maxMs: 15_000 }

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

/** The services, checked as a server would, so that it is found here and not by a closed socket. */
export function resolveServices(services: unknown): readonly ServiceOffer[] {
  if (!Array.isArray(services))
    throw new SignalboxError('invalid_argument', 'services must be a list of { name, slots, tags }.')
  const offers = services.map(({ name, slots, tags = {} }: NodeService) => ({
    name: text('services[].name', name),
    slots: whole('services[].slots', slots, { min: 1, max: frameLimits.maxSlots }),
    tags: resolveTags(tags),
  }))
  if (new Set(offers.map(({ name }) => name)).size === offers.length) return offers
  throw new SignalboxError('invalid_argument', 'services has two services of the same name.')
}

/** The labels, likewise. */
export function resolveLabels(labels: unknown): Labels {
  const entries = entriesOf('labels', labels, frameLimits.maxLabels)
  for (const [label, value] of entries) {
    const isText = typeof value === 'string' && value.length <= 191
    if (isText || typeof value === 'boolean' || Number.isFinite(value)) continue
    throw new SignalboxError(
      'invalid_argument',
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
      throw new SignalboxError(
        'invalid_argument',
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
  throw new SignalboxError('invalid_argument', `${name} must be an object of at most ${max} properties.`)
}

function resolveAddresses(urls: unknown): readonly NodeAddress[] {
  const list: readonly unknown[] = Array.isArray(urls) ? urls : [urls]
  if (list.length === 0 || list.length > maxServers)
    throw new SignalboxError(
      'invalid_argument',
      `A node connects to one server or to one of a list of 1 to ${maxServers}, and got a list of ${list.length}.`,
    )
  const byUrl = new Map(list.map(addressOf).map((address) => [address.url, address]))
  return [...byUrl.values()]
}

/** `ws://host`, `http://host` or the whole address of the socket. */
function addressOf(url: unknown): NodeAddress {
  const parsed = typeof url === 'string' && URL.canParse(url) ? new URL(url) : undefined
  const isBare =
    parsed?.username === '' && parsed.password === '' && parsed.search === '' && parsed.hash === ''
  if (parsed === undefined || !isBare || !/^(ws|http)s?:$/.test(parsed.protocol)) {
    // Not shown: it may hold a secret.
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
  throw new SignalboxError(
    'invalid_argument',
    'This platform has no WebSocket of its own: hand one in as the option WebSocket.',
  )
}

/** Longer, or longer than a heartbeat, and it goes without the load: what else it says is worth more. */
const maxMeasureMs = 5_000

/** The load, within its bounds; what cannot be measured, or not in time, is not said. */
export async function measureLoad(load: ResolvedNodeOptions['load'], heartbeatMs: number): Promise<NodeLoad> {
  const { promise: late, reject } = Promise.withResolvers<never>()
  const timer = setTimeout(() => reject(new Error('late')), Math.min(maxMeasureMs, heartbeatMs))
  try {
    const { cpu, gpu, memory } = (await Promise.race([load?.(), late])) ?? {}
    return { cpu: fraction(cpu), gpu: fraction(gpu), memory: fraction(memory) }
  } catch {
    return { cpu: null, gpu: null, memory: null }
  } finally {
    clearTimeout(timer)
  }
}

function fraction(value: unknown): number | null {
  return typeof value === 'number' && !Number.isNaN(value) ? Math.min(1, Math.max(0, value)) : null
}
