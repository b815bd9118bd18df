import type { SignalboxError } from '../../core/errors.ts'
import * as api from '../contract/index.ts'
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
    tokens: {
      create: (token) => client.call(api.createToken, { body: token }),
      list: (options) => client.call(api.listTokens, { query: options }),
      revoke: (id) => client.call(api.revokeToken, { params: { id } }),
    },
    audit: { list: (options) => client.call(api.listAudit, { query: options }) },
    contention: { snapshot: () => client.call(api.getContention) },
    overview: {
      me: () => client.call(api.whoAmI),
      get: (query = {}) => client.call(api.getOverview, { query }),
    },
    metrics: {
      series: (query = {}) => client.call(api.getSeries, { query, maxReplyBytes: listBytes }),
      scaling: (query) => client.call(api.getScaling, { query }),
    },
  }
}

/** The verbs of the monitor, over HTTP. */
export interface MonitorClient {
  /** A retry after a lost answer may return `duplicate`: the first try was processed. */
  report(report: api.ReportBody): Promise<api.ReplyOf<typeof api.reportChanges>>
  subscribe(subscription: api.BodyOf<typeof api.subscribe>): Promise<api.ReplyOf<typeof api.subscribe>>
  /** Throws `not_found`. */
  unsubscribe(id: string): Promise<void>
  subscriptions(): Promise<api.ReplyOf<typeof api.listSubscriptions>['items']>
  silence(silence: api.SilenceBody): Promise<api.ReplyOf<typeof api.createSilence>>
  /** Throws `not_found`. */
  unsilence(id: string): Promise<void>
  silences(): Promise<api.ReplyOf<typeof api.listSilences>['items']>
  explain(query: api.ExplainQuery): Promise<api.ReplyOf<typeof api.explainSubject>>
  decisions(query?: api.QueryOf<typeof api.listDecisions>): Promise<api.ReplyOf<typeof api.listDecisions>>
  notifications(
    query?: api.QueryOf<typeof api.listNotifications>,
  ): Promise<api.ReplyOf<typeof api.listNotifications>>
  replay(id: string): Promise<api.Replayed>
  subjects(query?: api.QueryOf<typeof api.listSubjects>): Promise<api.ReplyOf<typeof api.listSubjects>>
  /** Sends a test message through a channel now. */
  test(channel: api.TestChannelBody['channel']): Promise<api.TestChannelReply>
}

function createMonitorClient(client: Pick<Client, 'call'>): MonitorClient {
  return {
    report: (body) => client.call(api.reportChanges, { body, maxReplyBytes: reportBytes }),
    subscribe: (body) => client.call(api.subscribe, { body }),
    async unsubscribe(id) {
      await client.call(api.unsubscribe, { params: { id } })
    },
    subscriptions: async () => (await client.call(api.listSubscriptions, { maxReplyBytes: listBytes })).items,
    silence: (body) => client.call(api.createSilence, { body }),
    async unsilence(id) {
      await client.call(api.endSilence, { params: { id } })
    },
    silences: async () => (await client.call(api.listSilences, { maxReplyBytes: listBytes })).items,
    explain: (query) => client.call(api.explainSubject, { query, maxReplyBytes: listBytes }),
    decisions: (query = {}) => client.call(api.listDecisions, { query, maxReplyBytes: listBytes }),
    notifications: (query = {}) => client.call(api.listNotifications, { query, maxReplyBytes: listBytes }),
    replay: (id) => client.call(api.replayNotification, { params: { id } }),
    subjects: (query = {}) => client.call(api.listSubjects, { query, maxReplyBytes: listBytes }),
    test: (channel) => client.call(api.testChannel, { body: { channel } }),
  }
}

/** All changes of a report, with the states before and after. */
const reportBytes = 40 * 1_048_576
/** 500 notifications with two states of 256 KiB each would be larger; ask for smaller pages then. */
const listBytes = 64 * 1_048_576

/** The answer to a claim of one key. */
export type WireClaimed = Exclude<api.ReplyOf<typeof api.claimOnce>, { readonly items: unknown }>

/** The verbs of guards, over HTTP. A box from `open(url)` also renews claims by itself. */
export interface OnceClient {
  claim(request: Omit<api.ClaimOnceBody, 'keys'> & { readonly key: string }): Promise<WireClaimed>
  /** One answer per key, in order. */
  claimMany(
    request: Omit<api.ClaimOnceBody, 'key'> & { readonly keys: readonly string[] },
  ): Promise<readonly WireClaimed[]>
  /** Throws `lease_lost`. */
  done(request: api.DoneOnceBody): Promise<api.ReplyOf<typeof api.doneOnce>>
  /** Throws `lease_lost`. */
  fail(request: api.GuardTokenBody): Promise<api.ReplyOf<typeof api.failOnce>>
  /** When the claim ends now. Throws `lease_lost`. */
  renew(request: api.RenewOnceBody): Promise<api.ReplyOf<typeof api.renewOnce>>
  forget(request: api.ForgetOnceBody): Promise<boolean>
  seen(request: api.SeenOnceBody): Promise<api.ReplyOf<typeof api.seenOnce>>
  list(query?: api.QueryOf<typeof api.listGuards>): Promise<api.ReplyOf<typeof api.listGuards>>
  stats(): Promise<api.ReplyOf<typeof api.onceStats>>
}

function createOnceClient(client: Pick<Client, 'call'>): OnceClient {
  return {
    claim: async (body) => (await client.call(api.claimOnce, { body })) as WireClaimed,
    async claimMany(body) {
      const maxReplyBytes = claimBytes * body.keys.length + 1_048_576
      const { items } = (await client.call(api.claimOnce, { body, maxReplyBytes })) as {
        readonly items: readonly WireClaimed[]
      }
      return items
    },
    done: (body) => client.call(api.doneOnce, { body }),
    fail: (body) => client.call(api.failOnce, { body }),
    renew: (body) => client.call(api.renewOnce, { body }),
    forget: async (body) => (await client.call(api.forgetOnce, { body })).forgotten,
    seen: (body) => client.call(api.seenOnce, { body }),
    list: (query = {}) => client.call(api.listGuards, { query }),
    stats: () => client.call(api.onceStats),
  }
}

/** The longest reply per key, with its result. A reply that is not read leaves keys claimed. */
const claimBytes = 2 * 262_144

/** The identity of the caller, and the state of the server. */
export type WireMe = api.ReplyOf<typeof api.whoAmI>
export type WireOverview = api.ReplyOf<typeof api.getOverview>

/** The first calls of a dashboard, over HTTP. */
export interface OverviewClient {
  /** The identity and rights of the caller, and facts about the server. */
  me(): Promise<WireMe>
  /** Problems, health, queues and history; with `since`, only the samples from then on. */
  get(query?: api.OverviewQuery): Promise<WireOverview>
}

/** What all processes on the store do, over HTTP. */
export interface MetricsClient {
  /** Counts and times of jobs over time. */
  series(query?: api.QueryOf<typeof api.getSeries>): Promise<api.ReplyOf<typeof api.getSeries>>
  /** How many workers of a queue, or nodes of a service, the work calls for, and why. */
  scaling(query: api.QueryOf<typeof api.getScaling>): Promise<api.ReplyOf<typeof api.getScaling>>
}

/** The verbs of tokens, over HTTP; they need a token of the scope `admin`. */
export interface TokensClient {
  /** Creates a token; only this answer has its `secret`. Never retried, because each try would create another. */
  create(token: api.CreateTokenBody): Promise<api.CreatedToken>
  /** A page of tokens, oldest first, including ended ones. */
  list(options?: api.PageQuery): Promise<api.ReplyOf<typeof api.listTokens>>
  /** Revokes a token. Throws `not_found`. */
  revoke(id: string): Promise<api.ReplyOf<typeof api.revokeToken>>
}

/** The audit log, over HTTP; it needs a token of the scope `admin`. */
export interface AuditClient {
  /** A page of entries, newest first. */
  list(options?: api.QueryOf<typeof api.listAudit>): Promise<api.ReplyOf<typeof api.listAudit>>
}

/** Who waits on whom in the server that answers, over HTTP. */
export interface ContentionClient {
  /** What the caller may see. */
  snapshot(): Promise<api.ReplyOf<typeof api.getContention>>
}

/** A task as the server shows it. */
export type WireTask = api.ReplyOf<typeof api.cancelTask>
/** The same with what it was submitted with. */
export type WireFoundTask = api.ReplyOf<typeof api.getTask>
/** A node as the server shows it. */
export type WireNode = api.ReplyOf<typeof api.drainNode>
/** What happened to a task. */
export type WireTaskEvent = {
  readonly [Type in keyof api.TaskEvents]: { readonly type: Type } & api.TaskEvents[Type]
}[keyof api.TaskEvents]

export interface WatchTaskOptions {
  readonly signal?: AbortSignal | undefined
  /** Called when the connection broke, with the error and the wait until the next. */
  readonly onBreak?: ((error: SignalboxError, retryInMs: number) => void) | undefined
}

/** The verbs of dispatch, over HTTP. Nodes connect with `connectNode`. */
export interface DispatchClient {
  submit(task: api.BodyOf<typeof api.submitTask>): Promise<api.ReplyOf<typeof api.submitTask>>
  /** Throws `not_found`. */
  task(taskId: string): Promise<WireFoundTask>
  tasks(query?: api.QueryOf<typeof api.listTasks>): Promise<api.ReplyOf<typeof api.listTasks>>
  /** From the current state to the end; after a reconnect the current state comes first again. */
  watch(taskId: string, seen: (event: WireTaskEvent) => void, options?: WatchTaskOptions): Promise<void>
  cancel(taskId: string, options?: api.CancelTaskBody): Promise<WireTask>
  explain(taskId: string): Promise<api.ReplyOf<typeof api.explainTask>>
  nodes(query?: api.ListNodesQuery): Promise<api.ReplyOf<typeof api.listNodes>>
  drain(nodeId: string, options?: api.DrainNodeBody): Promise<WireNode>
  /** Closes a node, or one service of it, for new work until `uncordon`. */
  cordon(nodeId: string, options?: Pick<api.CordonNodeBody, 'service'>): Promise<void>
  /** Opens what `cordon` closed, also when the node is gone. */
  uncordon(nodeId: string, options?: Pick<api.CordonNodeBody, 'service'>): Promise<void>
  pools(): Promise<api.ReplyOf<typeof api.listPools>>
  definePool(pool: api.DefinePoolBody): Promise<api.DefinePoolBody>
  /** False: there was none. */
  removePool(name: string): Promise<boolean>
}

const ends: ReadonlySet<string> = new Set(['completed', 'failed', 'cancelled'])

function createDispatchClient(client: Pick<Client, 'call' | 'stream'>): DispatchClient {
  return {
    submit: (body) => client.call(api.submitTask, { body }),
    task: (id) => client.call(api.getTask, { params: { id } }),
    tasks: (query = {}) => client.call(api.listTasks, { query }),
    async watch(id, seen, { signal, onBreak } = {}) {
      // A stream reconnects by itself; it is over when the task is.
      const over = new AbortController()
      const ended = signal === undefined ? over.signal : AbortSignal.any([signal, over.signal])
      const tell = ({ type, data }: { readonly type: string; readonly data: unknown }) => {
        if (type === 'error') return
        seen({ type, ...(data as object) } as WireTaskEvent)
        if (ends.has(type)) over.abort()
      }
      await client.stream(api.taskEvents, { params: { id }, signal: ended, onEvent: tell, onBreak })
    },
    cancel: (id, body = {}) => client.call(api.cancelTask, { params: { id }, body }),
    explain: (id) => client.call(api.explainTask, { params: { id } }),
    nodes: (query = {}) => client.call(api.listNodes, { query }),
    drain: (id, body = {}) => client.call(api.drainNode, { params: { id }, body }),
    async cordon(id, options = {}) {
      await client.call(api.cordonNode, { params: { id }, body: { ...options, on: true } })
    },
    async uncordon(id, options = {}) {
      await client.call(api.cordonNode, { params: { id }, body: { ...options, on: false } })
    },
    pools: () => client.call(api.listPools),
    definePool: (body) => client.call(api.definePool, { body }),
    removePool: async (name) => (await client.call(api.removePool, { params: { name } })).removed,
  }
}
