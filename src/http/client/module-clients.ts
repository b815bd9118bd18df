import type { SignalboxError } from '../../core/errors.ts'
import {
  type CancelTaskBody,
  type ClaimOnceBody,
  type CordonNodeBody,
  type CreatedToken,
  type CreateTokenBody,
  cancelTask,
  claimOnce,
  cordonNode,
  createSilence,
  createToken,
  type DefinePoolBody,
  type DoneOnceBody,
  type DrainNodeBody,
  definePool,
  doneOnce,
  drainNode,
  type ExplainQuery,
  endSilence,
  explainSubject,
  explainTask,
  type ForgetOnceBody,
  failOnce,
  forgetOnce,
  type GuardTokenBody,
  getContention,
  getOverview,
  getScaling,
  getSeries,
  getTask,
  type ListAuditQuery,
  type ListDecisionsQuery,
  type ListGuardsQuery,
  type ListNodesQuery,
  type ListNotificationsQuery,
  type ListSubjectsQuery,
  type ListTasksQuery,
  type ListTokensQuery,
  listAudit,
  listDecisions,
  listGuards,
  listNodes,
  listNotifications,
  listPools,
  listSilences,
  listSubjects,
  listSubscriptions,
  listTasks,
  listTokens,
  type OverviewQuery,
  onceStats,
  type RenewOnceBody,
  type Replayed,
  type ReportBody,
  removePool,
  renewOnce,
  replayNotification,
  reportChanges,
  revokeToken,
  type ScalingQuery,
  type SeenOnceBody,
  type SeriesQuery,
  type ShapeOf,
  type SilenceBody,
  type SubmitTaskBody,
  type SubscribeBody,
  seenOnce,
  submitTask,
  subscribe,
  type TaskEvents,
  type TestChannelBody,
  type TestChannelReply,
  taskEvents,
  testChannel,
  unsubscribe,
  whoAmI,
} from '../contract/index.ts'
import type { Client } from './client.ts'
import { createJobsClient, type JobsClient } from './jobs.ts'
import { createLocksClient, type LocksClient } from './locks.ts'

/** The verbs of each module, over HTTP. */
export interface ModuleClients {
  readonly jobs: JobsClient
  readonly locks: LocksClient
  readonly once: OnceClient
  readonly monitor: MonitorClient
  readonly dispatch: DispatchClient
  readonly tokens: TokensClient
  readonly audit: AuditClient
  readonly contention: ContentionClient
  readonly overview: OverviewClient
  readonly metrics: MetricsClient
}

export function createModuleClients(
  client: Pick<Client, 'url' | 'call' | 'stream'>,
  timeoutMs: number,
): ModuleClients {
  return {
    jobs: createJobsClient(client, timeoutMs),
    locks: createLocksClient(client, timeoutMs),
    once: createOnceClient(client),
    monitor: createMonitorClient(client),
    dispatch: createDispatchClient(client),
    tokens: createTokensClient(client),
    audit: createAuditClient(client),
    contention: createContentionClient(client),
    overview: createOverviewClient(client),
    metrics: createMetricsClient(client),
  }
}

type Reply<R> = ShapeOf<R>['reply']

/** The verbs of the monitor, over HTTP. */
export interface MonitorClient {
  /** A retry after a lost answer may return `duplicate`: the first try was processed. */
  report(report: ReportBody): Promise<Reply<typeof reportChanges>>
  subscribe(subscription: SubscribeBody): Promise<Reply<typeof subscribe>>
  /** Throws `not_found`. */
  unsubscribe(id: string): Promise<void>
  subscriptions(): Promise<Reply<typeof listSubscriptions>['items']>
  silence(silence: SilenceBody): Promise<Reply<typeof createSilence>>
  /** Throws `not_found`. */
  unsilence(id: string): Promise<void>
  silences(): Promise<Reply<typeof listSilences>['items']>
  explain(query: ExplainQuery): Promise<Reply<typeof explainSubject>>
  decisions(query?: ListDecisionsQuery): Promise<Reply<typeof listDecisions>>
  notifications(query?: ListNotificationsQuery): Promise<Reply<typeof listNotifications>>
  replay(id: string): Promise<Replayed>
  subjects(query?: ListSubjectsQuery): Promise<Reply<typeof listSubjects>>
  /** Sends a test message through a channel now. */
  test(channel: TestChannelBody['channel']): Promise<TestChannelReply>
}

export function createMonitorClient(client: Pick<Client, 'call'>): MonitorClient {
  return {
    report: (body) => client.call(reportChanges, { body, maxReplyBytes: reportBytes }),
    subscribe: (body) => client.call(subscribe, { body }),
    async unsubscribe(id) {
      await client.call(unsubscribe, { params: { id } })
    },
    subscriptions: async () => (await client.call(listSubscriptions, { maxReplyBytes: listBytes })).items,
    silence: (body) => client.call(createSilence, { body }),
    async unsilence(id) {
      await client.call(endSilence, { params: { id } })
    },
    silences: async () => (await client.call(listSilences, { maxReplyBytes: listBytes })).items,
    explain: (query) => client.call(explainSubject, { query, maxReplyBytes: listBytes }),
    decisions: (query = {}) => client.call(listDecisions, { query, maxReplyBytes: listBytes }),
    notifications: (query = {}) => client.call(listNotifications, { query, maxReplyBytes: listBytes }),
    replay: (id) => client.call(replayNotification, { params: { id } }),
    subjects: (query = {}) => client.call(listSubjects, { query, maxReplyBytes: listBytes }),
    test: (channel) => client.call(testChannel, { body: { channel } }),
  }
}

/** All changes of a report, with the states before and after. */
const reportBytes = 40 * 1_048_576
/** 500 notifications with two states of 256 KiB each would be larger; ask for smaller pages then. */
const listBytes = 64 * 1_048_576

/** The answer to a claim of one key. */
export type WireClaimed = Exclude<ShapeOf<typeof claimOnce>['reply'], { readonly items: unknown }>

/** The verbs of guards, over HTTP. A box from `open(url)` also renews claims by itself. */
export interface OnceClient {
  claim(request: Omit<ClaimOnceBody, 'keys'> & { readonly key: string }): Promise<WireClaimed>
  /** One answer per key, in order. */
  claimMany(
    request: Omit<ClaimOnceBody, 'key'> & { readonly keys: readonly string[] },
  ): Promise<readonly WireClaimed[]>
  /** Throws `lease_lost`. */
  done(request: DoneOnceBody): Promise<ShapeOf<typeof doneOnce>['reply']>
  /** Throws `lease_lost`. */
  fail(request: GuardTokenBody): Promise<ShapeOf<typeof failOnce>['reply']>
  /** When the claim ends now. Throws `lease_lost`. */
  renew(request: RenewOnceBody): Promise<ShapeOf<typeof renewOnce>['reply']>
  forget(request: ForgetOnceBody): Promise<boolean>
  seen(request: SeenOnceBody): Promise<ShapeOf<typeof seenOnce>['reply']>
  list(query?: ListGuardsQuery): Promise<ShapeOf<typeof listGuards>['reply']>
  stats(): Promise<ShapeOf<typeof onceStats>['reply']>
}

export function createOnceClient(client: Pick<Client, 'call'>): OnceClient {
  return {
    claim: async (body) => (await client.call(claimOnce, { body })) as WireClaimed,
    async claimMany(body) {
      const maxReplyBytes = claimBytes * body.keys.length + 1_048_576
      const { items } = (await client.call(claimOnce, { body, maxReplyBytes })) as {
        readonly items: readonly WireClaimed[]
      }
      return items
    },
    done: (body) => client.call(doneOnce, { body }),
    fail: (body) => client.call(failOnce, { body }),
    renew: (body) => client.call(renewOnce, { body }),
    forget: async (body) => (await client.call(forgetOnce, { body })).forgotten,
    seen: (body) => client.call(seenOnce, { body }),
    list: (query = {}) => client.call(listGuards, { query }),
    stats: () => client.call(onceStats),
  }
}

/** The longest reply per key, with its result. A reply that is not read leaves keys claimed. */
const claimBytes = 2 * 262_144

/** The identity of the caller, and the state of the server. */
export type WireMe = ShapeOf<typeof whoAmI>['reply']
export type WireOverview = ShapeOf<typeof getOverview>['reply']

/** The first calls of a dashboard, over HTTP. */
export interface OverviewClient {
  /** The identity and rights of the caller, and facts about the server. */
  me(): Promise<WireMe>
  /** Problems, health, queues and history; with `since`, only the samples from then on. */
  get(query?: OverviewQuery): Promise<WireOverview>
}

export function createOverviewClient(client: Pick<Client, 'call'>): OverviewClient {
  return {
    me: () => client.call(whoAmI),
    get: (query = {}) => client.call(getOverview, { query }),
  }
}

/** What all processes on the store do, over HTTP. */
export interface MetricsClient {
  /** Counts and times of jobs over time. */
  series(query?: SeriesQuery): Promise<ShapeOf<typeof getSeries>['reply']>
  /** How many workers of a queue, or nodes of a service, the work calls for, and why. */
  scaling(query: ScalingQuery): Promise<ShapeOf<typeof getScaling>['reply']>
}

export function createMetricsClient(client: Pick<Client, 'call'>): MetricsClient {
  return {
    series: (query = {}) => client.call(getSeries, { query, maxReplyBytes: listBytes }),
    scaling: (query) => client.call(getScaling, { query }),
  }
}

/** The verbs of tokens, over HTTP; they need a token of the scope `admin`. */
export interface TokensClient {
  /** Creates a token; only this answer has its `secret`. Never retried, because each try would create another. */
  create(token: CreateTokenBody): Promise<CreatedToken>
  /** A page of tokens, oldest first, including ended ones. */
  list(options?: ListTokensQuery): Promise<ShapeOf<typeof listTokens>['reply']>
  /** Revokes a token. Throws `not_found`. */
  revoke(id: string): Promise<ShapeOf<typeof revokeToken>['reply']>
}

export function createTokensClient(client: Pick<Client, 'call'>): TokensClient {
  return {
    create: (token) => client.call(createToken, { body: token }),
    list: (options) => client.call(listTokens, { query: options }),
    revoke: (id) => client.call(revokeToken, { params: { id } }),
  }
}

/** The audit log, over HTTP; it needs a token of the scope `admin`. */
export interface AuditClient {
  /** A page of entries, newest first. */
  list(options?: ListAuditQuery): Promise<ShapeOf<typeof listAudit>['reply']>
}

export function createAuditClient(client: Pick<Client, 'call'>): AuditClient {
  return { list: (options) => client.call(listAudit, { query: options }) }
}

/** Who waits on whom in the server that answers, over HTTP. */
export interface ContentionClient {
  /** What the caller may see. */
  snapshot(): Promise<ShapeOf<typeof getContention>['reply']>
}

export function createContentionClient(client: Pick<Client, 'call'>): ContentionClient {
  return { snapshot: () => client.call(getContention) }
}

/** A task as the server shows it. */
export type WireTask = ShapeOf<typeof cancelTask>['reply']
/** The same with what it was submitted with. */
export type WireFoundTask = ShapeOf<typeof getTask>['reply']
/** A node as the server shows it. */
export type WireNode = ShapeOf<typeof drainNode>['reply']
/** What happened to a task. */
export type WireTaskEvent = {
  readonly [Type in keyof TaskEvents]: { readonly type: Type } & TaskEvents[Type]
}[keyof TaskEvents]

export interface WatchTaskOptions {
  readonly signal?: AbortSignal | undefined
  /** Called when the connection broke, with the error and the wait until the next. */
  readonly onBreak?: ((error: SignalboxError, retryInMs: number) => void) | undefined
}

/** The verbs of dispatch, over HTTP. Nodes connect with `connectNode`. */
export interface DispatchClient {
  submit(task: SubmitTaskBody): Promise<ShapeOf<typeof submitTask>['reply']>
  /** Throws `not_found`. */
  task(taskId: string): Promise<WireFoundTask>
  tasks(query?: ListTasksQuery): Promise<ShapeOf<typeof listTasks>['reply']>
  /** From the current state to the end; after a reconnect the current state comes first again. */
  watch(taskId: string, seen: (event: WireTaskEvent) => void, options?: WatchTaskOptions): Promise<void>
  cancel(taskId: string, options?: CancelTaskBody): Promise<WireTask>
  explain(taskId: string): Promise<ShapeOf<typeof explainTask>['reply']>
  nodes(query?: ListNodesQuery): Promise<ShapeOf<typeof listNodes>['reply']>
  drain(nodeId: string, options?: DrainNodeBody): Promise<WireNode>
  /** Closes a node, or one service of it, for new work until `uncordon`. */
  cordon(nodeId: string, options?: Pick<CordonNodeBody, 'service'>): Promise<void>
  /** Opens what `cordon` closed, also when the node is gone. */
  uncordon(nodeId: string, options?: Pick<CordonNodeBody, 'service'>): Promise<void>
  pools(): Promise<ShapeOf<typeof listPools>['reply']>
  definePool(pool: DefinePoolBody): Promise<DefinePoolBody>
  /** False: there was none. */
  removePool(name: string): Promise<boolean>
}

const ends: ReadonlySet<string> = new Set(['completed', 'failed', 'cancelled'])

export function createDispatchClient(client: Pick<Client, 'call' | 'stream'>): DispatchClient {
  return {
    submit: (body) => client.call(submitTask, { body }),
    task: (id) => client.call(getTask, { params: { id } }),
    tasks: (query = {}) => client.call(listTasks, { query }),
    async watch(id, seen, { signal, onBreak } = {}) {
      // A stream reconnects by itself; it is over when the task is.
      const over = new AbortController()
      const ended = signal === undefined ? over.signal : AbortSignal.any([signal, over.signal])
      const tell = ({ type, data }: { readonly type: string; readonly data: unknown }) => {
        if (type === 'error') return
        seen({ type, ...(data as object) } as WireTaskEvent)
        if (ends.has(type)) over.abort()
      }
      await client.stream(taskEvents, { params: { id }, signal: ended, onEvent: tell, onBreak })
    },
    cancel: (id, body = {}) => client.call(cancelTask, { params: { id }, body }),
    explain: (id) => client.call(explainTask, { params: { id } }),
    nodes: (query = {}) => client.call(listNodes, { query }),
    drain: (id, body = {}) => client.call(drainNode, { params: { id }, body }),
    async cordon(id, options = {}) {
      await client.call(cordonNode, { params: { id }, body: { ...options, on: true } })
    },
    async uncordon(id, options = {}) {
      await client.call(cordonNode, { params: { id }, body: { ...options, on: false } })
    },
    pools: () => client.call(listPools),
    definePool: (body) => client.call(definePool, { body }),
    removePool: async (name) => (await client.call(removePool, { params: { name } })).removed,
  }
}
