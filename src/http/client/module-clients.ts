import type { TokenWithSecret } from '../../access/index.ts'
import type { Audit } from '../../audit/index.ts'
import type { ContentionSnapshot } from '../../contention/index.ts'
import type { SignalboxError } from '../../core/errors.ts'
import type { Dispatch, FoundTask, NodeView, Task } from '../../dispatch/index.ts'
import type { FleetMetrics } from '../../fleet/index.ts'
import type { Monitor } from '../../monitor/index.ts'
import type { ClaimAnswer, Once, OnceStats } from '../../once/index.ts'
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
export interface MonitorClient
  extends Pick<
    Monitor,
    | 'subscribe'
    | 'subscriptions'
    | 'silences'
    | 'decisions'
    | 'notifications'
    | 'replay'
    | 'subjects'
    | 'test'
  > {
  /** A retry after a lost answer may return `duplicate`: the first try was processed. */
  report(report: api.ReportBody): Promise<api.ReplyOf<typeof api.reportChanges>>
  /** Throws `not_found`. */
  unsubscribe(id: string): Promise<void>
  silence(silence: api.SilenceBody): Promise<api.ReplyOf<typeof api.createSilence>>
  /** Throws `not_found`. */
  unsilence(id: string): Promise<void>
  explain(query: api.ExplainQuery): Promise<api.ReplyOf<typeof api.explainSubject>>
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
/** 500 notifications with two states of 256 KiB each would be larger. Then the caller needs smaller pages. */
const listBytes = 64 * 1_048_576

export type WireClaimed = ClaimAnswer

/** The verbs of guards, over HTTP. A box from `open(url)` also renews claims by itself. */
export interface OnceClient extends Pick<Once, 'list'> {
  claim(request: Omit<api.ClaimOnceBody, 'keys'> & { readonly key: string }): Promise<WireClaimed>
  /** One answer per key, in order. */
  claimMany(
    request: Omit<api.ClaimOnceBody, 'key'> & { readonly keys: readonly string[] },
  ): Promise<readonly WireClaimed[]>
  /** Throws `lease_lost`. */
  done(request: api.DoneOnceBody): Promise<api.ReplyOf<typeof api.doneOnce>>
  /** Throws `lease_lost`. */
  fail(request: api.GuardTokenBody): Promise<api.ReplyOf<typeof api.failOnce>>
  /** Returns the new end of the claim. Throws `lease_lost`. */
  renew(request: api.RenewOnceBody): Promise<api.ReplyOf<typeof api.renewOnce>>
  forget(request: api.ForgetOnceBody): Promise<boolean>
  seen(request: api.SeenOnceBody): Promise<api.ReplyOf<typeof api.seenOnce>>
  stats(): Promise<OnceStats>
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

/** The longest reply per key, with its result. If the client did not read the reply, the keys would stay claimed. */
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
export type MetricsClient = FleetMetrics

/** The verbs of tokens, over HTTP; they need a token of the scope `admin`. */
export interface TokensClient {
  /** Creates a token; only this answer has its `secret`. Never retried, because each try would create another. */
  create(token: api.CreateTokenBody): Promise<TokenWithSecret>
  /** A page of tokens, oldest first, including ended ones. */
  list(options?: api.PageQuery): Promise<api.ReplyOf<typeof api.listTokens>>
  /** Revokes a token. Throws `not_found`. */
  revoke(id: string): Promise<api.ReplyOf<typeof api.revokeToken>>
}

/** The audit log, over HTTP; it needs a token of the scope `admin`. */
export type AuditClient = Pick<Audit, 'list'>

/** Which calls wait for which others in the server that answers, over HTTP. */
export interface ContentionClient {
  /** The part that the caller may see. */
  snapshot(): Promise<ContentionSnapshot>
}

export type WireTask = Task
/** A task with the options of its submit. */
export type WireFoundTask = FoundTask
export type WireNode = NodeView
/** An event of a task. */
export type WireTaskEvent = {
  readonly [Type in keyof api.TaskEvents]: { readonly type: Type } & api.TaskEvents[Type]
}[keyof api.TaskEvents]

export interface WatchTaskOptions {
  readonly signal?: AbortSignal | undefined
  /** Called when the connection broke, with the error and the wait until the next. */
  readonly onBreak?: ((error: SignalboxError, retryInMs: number) => void) | undefined
}

/** The verbs of dispatch, over HTTP. Nodes connect with `connectNode`. */
export interface DispatchClient
  extends Pick<
    Dispatch,
    'submit' | 'tasks' | 'cancel' | 'explain' | 'drain' | 'cordon' | 'uncordon' | 'removePool'
  > {
  /** Throws `not_found`. */
  task(taskId: string): Promise<WireFoundTask>
  /** From the current state to the end; after a reconnect the current state comes first again. */
  watch(taskId: string, seen: (event: WireTaskEvent) => void, options?: WatchTaskOptions): Promise<void>
  nodes(query?: api.ListNodesQuery): Promise<api.ReplyOf<typeof api.listNodes>>
  pools(): Promise<api.ReplyOf<typeof api.listPools>>
  definePool(pool: api.DefinePoolBody): Promise<api.DefinePoolBody>
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
      const deliver = ({ type, data }: { readonly type: string; readonly data: unknown }) => {
        if (type === 'error') return
        seen({ type, ...(data as object) } as WireTaskEvent)
        if (ends.has(type)) over.abort()
      }
      await client.stream(api.taskEvents, { params: { id }, signal: ended, onEvent: deliver, onBreak })
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
