import type { Scope, TokenStore } from '../../access/index.ts'
import type { AuditStore } from '../../audit/index.ts'
import type { SignalboxError } from '../../core/errors.ts'
import type { ClusterStore } from '../../dispatch/index.ts'
import type { SeriesStore } from '../../fleet/index.ts'
import type { WorkerStore } from '../../fleet/workers/index.ts'
import type {
  AttemptStore,
  DependencyStore,
  JobStore,
  Jobs,
  JobsNotifier,
  LogStore,
  ScheduleStore,
} from '../../jobs/index.ts'
import type { LockStore } from '../../locks/index.ts'
import type { MonitorStore } from '../../monitor/index.ts'
import type { GuardStore } from '../../once/index.ts'
import type * as wire from '../contract/index.ts'
import type { BodyLimits, Route, Shape, ShapeOf } from '../contract/index.ts'
import type { Space } from './namespace-services.ts'

/**
 * The words in which the server's parts speak to one another. None belongs to a framework: Fastify and `fetch` each
 * turn what they have into an `Incoming`, and an `Outgoing` into what they need.
 *
 *     Incoming ──▶ guard ──▶ authenticate ──▶ read and check ──▶ handler ──▶ Outgoing
 */

/** A request, however it came in. */
export interface Incoming {
  readonly method: string
  /** As it came, percent-encoded, without the query. */
  readonly path: string
  /** What stands after the question mark, or ''. */
  readonly query: string
  /** By lower-case name. */
  header(name: string): string | undefined
  /** The peer's address; '' when it is not known. */
  readonly address: string
  /** Aborts when the client has gone. */
  readonly signal: AbortSignal
  /** Whether it has; costs less than the signal. */
  readonly isGone: boolean
  /** Reads the body to its end; throws `too_large` as soon as it is above the limit. Empty when there is none. */
  readBody(limits: BodyLimits): Uint8Array | Promise<Uint8Array>
}

/** What goes back. */
export type Outgoing = OutgoingText | OutgoingStream

export interface OutgoingText {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Uint8Array
}

/** A stream of server-sent events; `feed` is opened once its head has been written. */
export interface OutgoingStream {
  readonly status: 200
  readonly headers: Readonly<Record<string, string>>
  readonly feed: Feed
  readonly lastEventId: string | undefined
  readonly principal: Principal
  /** To be called once when it is over, also when it never began. `dropped`: its reader was too slow. */
  readonly ended: (how: 'ended' | 'dropped') => void
}

/** Who asks, and as whom it counts. */
export interface Principal {
  /** The token's id, or `local` for a client of a loopback port that needs no token. */
  readonly id: string
  /** The token's name, for people; a local client has none. */
  readonly name?: string
  readonly scope: Scope
  /** Its token may connect as one of these nodes and do nothing else; undefined: it is not bound. */
  readonly nodes?: readonly string[]
  /** The namespace this request acts in. */
  readonly namespace: string
  /** Whether it may act in any: a token of `*`, or local. */
  readonly everyNamespace: boolean
}

export interface Authenticator extends AsyncDisposable {
  /** Whether requests need a token. Without, every client of the port may do everything. */
  isRequired(): Promise<boolean>
  /** Who asks. Throws `unauthorized`, or `forbidden` for a namespace that is not the token's. */
  authenticate(
    incoming: Pick<Incoming, 'header'> & Partial<Pick<Incoming, 'address'>>,
  ): Principal | Promise<Principal>
  /** Calls `ended` once when the principal's token no longer counts, within a second; until the returned function is called. */
  watch(principal: Principal, ended: (reason: SignalboxError) => void): () => void
}

/** One request on its way through a handler, with everything read and checked. */
export interface Call<S extends Shape = Shape> {
  readonly params: S['params']
  readonly query: S['query']
  readonly body: S['body']
  readonly principal: Principal
  /** What there is in the principal's namespace. */
  readonly space: Space
  /** The same jobs; with an Idempotency-Key, writes through them happen once. */
  readonly jobs: Jobs
  /** The Idempotency-Key, and what it is bound to. */
  readonly key: { readonly key: string; readonly fingerprint: string } | undefined
  /** Aborts when the client has gone; on a route that may wait, also when the token ended. */
  readonly signal: AbortSignal
  /** Whether `signal` has aborted, so that no client takes the answer. */
  readonly isGone: boolean
  /** Whether the token ended while this request waited. Then no client may ask for the answer again, not even by its key. */
  readonly hasLostToken: boolean
  /** What a stream was read up to, as its reader says. */
  readonly lastEventId: string | undefined
}

/** What a handler answers. Without a status, the route's lowest. */
export type Answer<S extends Shape = Shape> =
  | { readonly status?: number; readonly body: S['reply'] }
  | { readonly feed: Feed }
  | { readonly text: string; readonly type: string }

export type Handler<R extends Route = Route> = (call: Call<ShapeOf<R>>) => Promise<Answer<ShapeOf<R>>>

/** The handlers of these routes, by the names that the contract exports them under. */
export type Handlers<Id extends keyof typeof wire> = {
  readonly [Key in Id]: (typeof wire)[Key] extends Route ? Handler<(typeof wire)[Key]> : never
}

/** Some of them; the server does not start without all. */
export type SomeHandlers = Partial<Handlers<keyof typeof wire>>

/**
 * Claims that wait. Claims for the same queues and kinds share one queue, and a wake-up makes one claim for its head. So
 * the cost of a wake-up does not grow with the number of waiters.
 */
export interface LongPollClaims {
  /**
   * Calls `claim` when its turn comes: at once if no claim waits before it, and then whenever there may be a job, until
   * one claim brings jobs or `waitMs` is over; then `[]`. A client that has gone gets nothing.
   */
  wait<Claimed>(
    request: ClaimWait<Claimed>,
    waitMs: number,
    signal: AbortSignal,
    claim: () => Promise<readonly Claimed[]>,
  ): Promise<readonly Claimed[]>
  /** Lets everybody go with what they have; for shutting down. */
  close(): void
}

/** What is waited for. */
export interface ClaimWait<Claimed = unknown> {
  readonly queues: readonly string[]
  /** Undefined: any. */
  readonly kinds: readonly string[] | undefined
  /** Gives back jobs that were claimed after their client had gone. */
  readonly giveBack?: (jobs: readonly Claimed[]) => Promise<unknown>
}

/** Where a stream's events come from. */
export interface Feed {
  /**
   * Opens it for one reader: the present state first, or what came after `lastEventId` when that is still known (else
   * `reset` and the present state), then what happens, until the returned function is called.
   */
  open(lastEventId: string | undefined, reader: FeedReader): () => void
}

export interface FeedReader {
  send(event: FeedEvent): void
  /** The feed cannot go on; the reader is told why and may come again. */
  fail(error: unknown): void
  /** There is no more to tell: the stream ends without an error. */
  end?(): void
}

export interface FeedEvent {
  /** A number rises strictly within a stream. A text says from where rows are read again. A hint has none. */
  readonly id?: number | string
  readonly type: string
  readonly data: unknown
  /** The data as JSON, made once for all readers. */
  readonly text?: string
}

/** How the schema of the store stands to this program. */
export interface SchemaStatus {
  readonly current: number
  readonly latest: number
  readonly isRunnable: boolean
  readonly isBeforeBaseline: boolean
}

/** What the server asks of the store it serves; a backend is one. */
export interface Served extends ServedStores {
  readonly name: string
  readonly warnings: readonly string[]
  readonly traits: { readonly remoteWakeUps: boolean }
  readonly tokens: TokenStore
  readonly migrator: { status(): Promise<SchemaStatus> }
  within(namespace: string): ServedStores
  pruneKeys(limit: number): Promise<number>
  subscribedNamespaces(limit: number): Promise<readonly string[]>
  dispatchedNamespaces(limit: number): Promise<readonly string[]>
  scheduledNamespaces(limit: number): Promise<readonly string[]>
  queuedNamespaces(queue: string, limit: number): Promise<readonly string[]>
  blockedNamespaces(limit: number): Promise<readonly string[]>
  ping(): Promise<void>
  time(): Promise<number>
}

export interface ServedStores {
  readonly jobs: JobStore
  readonly logs: LogStore
  readonly attempts: AttemptStore
  readonly schedules: ScheduleStore
  readonly dependencies: DependencyStore
  readonly locks: LockStore
  readonly guards: GuardStore
  /** Those of the store that holds the jobs, where `guards` are elsewhere. */
  readonly ownGuards?: GuardStore
  readonly monitor: MonitorStore
  readonly audit: AuditStore
  readonly series: SeriesStore
  readonly workers: WorkerStore
  readonly cluster: ClusterStore
  readonly notifier: JobsNotifier
  keyed(key: {
    readonly caller: string
    readonly key: string
    readonly fingerprint: string
    readonly keepMs: number
  }): { readonly jobs: JobStore }
}
