import type { Scope } from '../../access/index.ts'
import type { SignalboxError } from '../../core/errors.ts'
import type { Jobs, JobsNotifier } from '../../jobs/index.ts'
import type { Backend, MigrationStatus, Stores } from '../../storage/backend.ts'
import type * as wire from '../contract/index.ts'
import type { BodyLimits, Route, Shape, ShapeOf } from '../contract/index.ts'
import type { Space } from './namespace-services.ts'

/**
 * The types that the parts of the server share. They belong to no framework: each adapter (Node's HTTP server, `fetch`)
 * turns its request into an `Incoming`, and an `Outgoing` into its response.
 *
 *     Incoming ──▶ guard ──▶ authenticate ──▶ read and check ──▶ handler ──▶ Outgoing
 */

/** A request of any adapter. */
export interface Incoming {
  readonly method: string
  /** The path as the client sent it: percent-encoded, without the query. */
  readonly path: string
  /** The text after the question mark, or ''. */
  readonly query: string
  /** Reads a header by its lower-case name. */
  header(name: string): string | undefined
  /** The peer's address; '' if it is unknown. */
  readonly address: string
  /** Aborts when the client leaves. */
  readonly signal: AbortSignal
  /** Whether the client has left. Costs less than the signal. */
  readonly isGone: boolean
  /** Reads the whole body. Throws `too_large` as soon as it exceeds the limit. Empty if the request has no body. */
  readBody(limits: BodyLimits): Uint8Array | Promise<Uint8Array>
}

/** An answer for any adapter. */
export type Outgoing = OutgoingText | OutgoingStream

export interface OutgoingText {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | Uint8Array
}

/** A stream of server-sent events. The stream opens `feed` after the response head is written. */
export interface OutgoingStream {
  readonly status: 200
  readonly headers: Readonly<Record<string, string>>
  readonly feed: Feed
  readonly lastEventId: string | undefined
  readonly principal: Principal
  /** The adapter calls this once at the end, even if the stream never began. `dropped`: the reader was too slow. */
  readonly ended: (how: 'ended' | 'dropped') => void
}

/** The caller of a request, as limits, keys and the audit trail know it. */
export interface Principal {
  /** The token's id, or `local` for a client of a loopback port that needs no token. */
  readonly id: string
  /** The token's name, for people; a local client has none. */
  readonly name?: string
  readonly scope: Scope
  /** The token may only connect as one of these nodes; undefined: the token is not bound to nodes. */
  readonly nodes?: readonly string[]
  /** The namespace of this request. */
  readonly namespace: string
  /** Whether the caller may use every namespace: a token of `*`, or local. */
  readonly everyNamespace: boolean
}

export interface Authenticator extends AsyncDisposable {
  /** Whether requests need a token. If not, every client of the port may do everything. */
  isRequired(): Promise<boolean>
  /** Finds the caller. Throws `unauthorized`, or `forbidden` for a namespace other than the token's. */
  authenticate(
    incoming: Pick<Incoming, 'header'> & Partial<Pick<Incoming, 'address'>>,
  ): Principal | Promise<Principal>
  /** Calls `ended` once, within a second after the principal's token ends. The returned function stops the watch. */
  watch(principal: Principal, ended: (reason: SignalboxError) => void): () => void
}

/** A validated request, as a handler gets it. */
export interface Call<S extends Shape = Shape> {
  readonly params: S['params']
  readonly query: S['query']
  readonly body: S['body']
  readonly principal: Principal
  /** The services of the principal's namespace. */
  readonly space: Space
  /** The job service of the namespace. If the request has an Idempotency-Key, its writes happen once. */
  readonly jobs: Jobs
  /** The Idempotency-Key, and the hash of the request to which it is bound. */
  readonly key: { readonly key: string; readonly fingerprint: string } | undefined
  /** Aborts when the client leaves. On a route that may wait, it also aborts when the token ends. */
  readonly signal: AbortSignal
  /** Whether `signal` has aborted: no client gets the answer. */
  readonly isGone: boolean
  /**
   * Whether the token ended while this request waited. Then no client may fetch the answer later, not even by its key.
   */
  readonly hasLostToken: boolean
  /** The id of the last event that the reader of a stream has. */
  readonly lastEventId: string | undefined
}

/** The answer of a handler. The default status is the lowest of the route. */
export type Answer<S extends Shape = Shape> =
  | { readonly status?: number; readonly body: S['reply'] }
  | { readonly feed: Feed }
  | { readonly text: string; readonly type: string }

export type Handler<R extends Route = Route> = (call: Call<ShapeOf<R>>) => Promise<Answer<ShapeOf<R>>>

/** The handlers of these routes, by the export names of the contract. */
export type Handlers<Id extends keyof typeof wire> = {
  readonly [Key in Id]: (typeof wire)[Key] extends Route ? Handler<(typeof wire)[Key]> : never
}

/** The handlers of some routes. Together the parts must cover all routes, or the server does not start. */
export type SomeHandlers = Partial<Handlers<keyof typeof wire>>

/** The source of a stream's events. */
export interface Feed {
  /**
   * Sends events to one reader until the returned function is called. A reader with a `lastEventId` first gets the
   * events after it, or if the feed no longer has them, `reset` and the present state. Other readers first get the
   * present state.
   */
  open(lastEventId: string | undefined, reader: FeedReader): () => void
}

export interface FeedReader {
  send(event: FeedEvent): void
  /** The feed failed. The reader gets the error and may reconnect. */
  fail(error: unknown): void
  /** The feed sent its last event. The stream ends without an error. */
  end?(): void
}

export interface FeedEvent {
  /** A number rises strictly within a stream. A text is a position to resume at. A hint has no id. */
  readonly id?: number | string
  readonly type: string
  readonly data: unknown
  /** The data as JSON, encoded once for all readers. */
  readonly text?: string
}

/** What the server needs from the store. */
export interface Served
  extends ServedStores,
    Pick<
      Backend,
      | 'name'
      | 'warnings'
      | 'tokens'
      | 'pruneKeys'
      | 'subscribedNamespaces'
      | 'dispatchedNamespaces'
      | 'scheduledNamespaces'
      | 'queuedNamespaces'
      | 'blockedNamespaces'
      | 'ping'
      | 'time'
    > {
  readonly traits: Pick<Backend['traits'], 'remoteWakeUps'>
  readonly migrator: { status(): Promise<SchemaStatus> }
  within(namespace: string): ServedStores
}

/** The schema version of the store, compared with this program. */
export type SchemaStatus = Omit<MigrationStatus, 'pending'>

export interface ServedStores extends Omit<Stores, 'notifier'> {
  readonly notifier: JobsNotifier
}
