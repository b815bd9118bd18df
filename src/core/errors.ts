/**
 * One class of error for all modules. Its `code` is the promise: it never changes its meaning, it crosses the wire
 * unchanged, and it is what callers compare. The message is for people and may be reworded at any time.
 *
 * Only codes that the source throws are in the table; test/house/errors.test.ts compares the table with the
 * source and with docs/errors.md, so none can be promised without being real, or thrown without being documented.
 */

/**
 * Every code: the HTTP status it has on the wire, and what it means in one line. The comment of a code says what to do.
 * `npm run docs` writes the table in docs/errors.md from both.
 */
export const errorCodes = {
  /** The message names the option, what is allowed and what was given. */
  invalid_argument: { status: 400, meaning: 'An option, a field or the request is not valid.' },
  /**
   * Begin a transaction first: outside of one, an ack would commit by itself. A failed or ended transaction, and a
   * closed connection, count as none. Nothing was written.
   */
  transaction_required: { status: 400, meaning: 'The connection given as `tx` is not in a transaction.' },
  /**
   * `memory:` has no tables, SQLite with `thread: true` writes in another thread, and a box on a server has no
   * connection.
   */
  transaction_unsupported: { status: 400, meaning: "This store cannot take part in a caller's transaction." },
  /** Nothing was written. Roll the transaction back, and open it on the database of the box. */
  wrong_database: { status: 400, meaning: 'The transaction given as `tx` belongs to another database.' },
  /** Send `Authorization: Bearer …`. The token is missing, wrong, expired or revoked. */
  unauthorized: { status: 401, meaning: 'The request has no valid token.' },
  /**
   * The token's scope is too small or its namespace is another one, the `Host` header does not name this server, or
   * the request comes from another web site.
   */
  forbidden: { status: 403, meaning: 'The caller is not allowed to do this.' },
  /** A job that was pruned is not found either. */
  not_found: { status: 404, meaning: 'The thing or the route does not exist.' },
  /** The `Allow` header lists the methods of the path. */
  method_not_allowed: { status: 405, meaning: 'The path exists, but not with this method.' },
  /** The headers have 10 seconds, the whole request 30. */
  request_timeout: { status: 408, meaning: 'The request did not arrive in time.' },
  /** Examples: a running job cannot be retried, and neither can a job whose unique key another live job has. */
  conflict: { status: 409, meaning: 'The current state does not allow this.' },
  /** Send the request again a little later: it gets the answer of the first one. */
  in_progress: { status: 409, meaning: 'A request with the same Idempotency-Key is still running.' },
  /**
   * `signalbox copy` compared them. The message lists the tables with the row counts of both sides. One side was used
   * since the copy, or rows were changed by hand.
   */
  copy_mismatch: { status: 409, meaning: 'The two databases differ.' },
  /**
   * The message says what is held and by which worker. Stop servers and workers. Leases of crashed workers end by
   * themselves.
   */
  copy_source_busy: { status: 409, meaning: 'The source of the copy is still in use.' },
  /** The message lists the tables. Stop all writers and run the same copy again: only these tables are copied again. */
  copy_source_changed: { status: 409, meaning: 'The source of the copy changed during the copy.' },
  /**
   * It is not empty, another source is being copied to it, this source was copied to it before, or two copies run at
   * once.
   */
  copy_target_taken: { status: 409, meaning: 'The target of the copy has other content.' },
  /**
   * Nothing was written. Stop the work: another worker may have started it. A transaction given as `tx` [was
   * ended](transactions.md#after-an-error-nothing-can-be-committed).
   */
  lease_lost: {
    status: 409,
    meaning: 'The lease has ended: the token no longer holds this job, lock or key.',
  },
  /** Try again. A worker does so by itself, up to ten times per job, and does not count the attempt. */
  transaction_conflict: {
    status: 409,
    meaning: 'The database aborted the transaction: deadlock, serialization failure or lock timeout.',
  },
  /** Limits: 256 KiB of JSON for a payload or result, 10,000 jobs for `addMany`, 1 MiB for the body of a request. */
  too_large: { status: 413, meaning: 'The value is too large.' },
  /** Nothing was claimed. Use another key for different work. */
  fingerprint_mismatch: { status: 422, meaning: 'The key was claimed before with another fingerprint.' },
  /**
   * Another or an older program added it. The job is `dead` at once, and its `error` says what is wrong and where. Fix
   * the schema or the handler, then retry the job. (A payload that does not match when it is *added* is
   * `invalid_argument`.)
   */
  invalid_payload: {
    status: 422,
    meaning: "The stored payload does not match the schema of the job's kind.",
  },
  /** Nothing was done. Use a new key for each route and body. */
  idempotency_mismatch: { status: 422, meaning: 'The Idempotency-Key was used before for another request.' },
  /** `Retry-After` says when to try again. */
  too_many: { status: 429, meaning: 'A limit on the number or the rate of calls is reached.' },
  /** The limit is 16 KiB. */
  headers_too_large: { status: 431, meaning: 'The request headers are too large.' },
  /** The server's log has the cause under the request id; clients never see it. */
  internal: { status: 500, meaning: 'Unexpected error in Signalbox.' },
  /** The handler did not ack, or it acked in a transaction that was rolled back. The attempt counts as failed. */
  ack_missing: {
    status: 500,
    meaning: 'A handler with `finish: "transaction"` returned without a committed ack.',
  },
  /** Or its driver is not installed: the message names the package. */
  engine_unsupported: { status: 500, meaning: 'Signalbox does not support this database.' },
  /**
   * The box has no sealer, or the sealer lacks the key or did not answer. A worker puts the job off for 30 seconds
   * without counting an attempt, and says so in a `warning` and in the log of the job. A `claim` that got only such
   * jobs throws this.
   */
  payload_sealed: { status: 500, meaning: 'The job is encrypted, and this process cannot decrypt it.' },
  /** No key decrypts it. The job, or the notification, is `dead` at once with this code in its `error`. */
  seal_broken: { status: 500, meaning: 'The encrypted data was changed or belongs to another owner.' },
  /**
   * Its notifications wait, with this code in their `error`. Set `SIGNALBOX_SECRET_KEY` to the key that the message
   * names: [rotation](security.md#channel-secrets).
   */
  secret_sealed: {
    status: 500,
    meaning: 'The channel of a subscription is encrypted, and this process has no key for it.',
  },
  /** Nothing was added. `cause` has the error of the sealer. */
  seal_failed: {
    status: 500,
    meaning: 'The sealer threw, did not answer in time, or returned something invalid.',
  },
  /** The job is `dead` with this code. Repair the row and retry the job. */
  undecodable: { status: 500, meaning: 'The stored job cannot be read.' },
  /**
   * This says nothing about the payload. `add` wrote nothing; in a worker the attempt counts as failed and is tried
   * again.
   */
  schema_failed: {
    status: 500,
    meaning: 'The schema of a kind threw, did not answer in time, or returned something invalid.',
  },
  /** The port is in use, not permitted or does not exist. `details` has `host`, `port` and the system's `reason`. */
  listen_failed: { status: 500, meaning: 'The server could not open its port.' },
  /** Open another one. */
  closed: { status: 503, meaning: 'The box, client or worker is closed.' },
  /** A worker looks the outcome up by the token of the job before it does anything else. */
  commit_unknown: { status: 503, meaning: 'The connection broke during the commit: the outcome is unknown.' },
  /** Run the same [`signalbox copy`](cli-operations.md#signalbox-copy) again: it continues where it stopped. */
  copy_unfinished: { status: 503, meaning: 'The database is the target of an unfinished copy.' },
  /** Run `signalbox migrate up`, or open it with `{ migrate: true }`. */
  schema_missing: { status: 503, meaning: 'The database has no Signalbox tables.' },
  /** Upgrade Signalbox here. */
  schema_newer: { status: 503, meaning: 'A newer version of Signalbox made this database.' },
  /**
   * Run `signalbox migrate up`, or open it with `{ migrate: true }`. A database from before 0.1.0 cannot be migrated:
   * start with an empty one.
   */
  schema_outdated: { status: 503, meaning: 'An older version of Signalbox made this database.' },
  /** Try again. */
  store_busy: { status: 503, meaning: 'The store is busy and did not become free in time.' },
  /** `cause` has the error of the driver. */
  store_unavailable: { status: 503, meaning: 'The store cannot be reached, or it refused the call.' },
  /**
   * The event loop was more than a second late twice in a row. The server refuses new work with `Retry-After: 1` and
   * still answers acks, nacks, renewals, releases, `/livez`, `/readyz` and `/metrics`. The clients of this package
   * retry by themselves.
   */
  overloaded: { status: 503, meaning: 'Server overloaded; the request was not processed.' },
  /** Send the request to another server, or try again a little later. */
  draining: { status: 503, meaning: 'The server is shutting down and takes no new requests.' },
  /** Do slow work before the transaction. */
  transaction_timeout: { status: 503, meaning: 'The transaction took too long and was rolled back.' },
  /** If it was the time limit of a job, its attempt counts as failed. */
  timeout: { status: 504, meaning: 'The time limit passed.' },
} as const

/** A stable error code. */
export type ErrorCode = keyof typeof errorCodes

/** What an error may carry besides its code and message. */
export interface SignalboxErrorOptions {
  /** The original error, when there is one. */
  readonly cause?: unknown
  /** Facts for programs: names, limits, instants. Never secrets, for they may cross the wire. */
  readonly details?: Readonly<Record<string, unknown>>
}

/** An error that someone must act on; `code` says which kind, the message what happened and what to do. */
export class SignalboxError extends Error {
  readonly code: ErrorCode
  readonly details: Readonly<Record<string, unknown>>

  constructor(code: ErrorCode, message: string, options: SignalboxErrorOptions = {}) {
    // `cause` is passed on only when given: an own property `cause: undefined` would print as a cause.
    super(message, 'cause' in options ? { cause: options.cause } : undefined)
    this.name = 'SignalboxError'
    this.code = code
    this.details = Object.freeze({ ...options.details })
  }

  /** The HTTP status of this error's code. */
  get status(): number {
    return errorCodes[this.code].status
  }
}

/** The most frequent error: what is wrong with an argument, and for programs which option or field that is. */
export function invalidArgument(message: string, option?: string): SignalboxError {
  return new SignalboxError('invalid_argument', message, option === undefined ? {} : { details: { option } })
}

/**
 * Whether a value is a SignalboxError, and of that code when one is given. It asks by shape: two copies of this
 * package in one process (or two realms) have two classes, and their errors must still be recognised.
 */
export function isSignalboxError<Code extends ErrorCode = ErrorCode>(
  value: unknown,
  code?: Code,
): value is SignalboxError & { readonly code: Code } {
  if (typeof value !== 'object' || value === null) return false
  try {
    const { name, code: itsCode } = value as { name?: unknown; code?: unknown }
    const isOurs =
      value instanceof SignalboxError || (name === 'SignalboxError' && typeof itsCode === 'string')
    return isOurs && (code === undefined || itsCode === code)
  } catch {
    // Anything can be thrown, also what throws when it is looked at; that is none of ours.
    return false
  }
}

/** Resolves with the answer, or with undefined if it fails with this code. */
export async function orUndefined<Value>(
  code: ErrorCode,
  answer: Promise<Value>,
): Promise<Value | undefined> {
  try {
    return await answer
  } catch (error) {
    if (isSignalboxError(error, code)) return undefined
    throw error
  }
}
