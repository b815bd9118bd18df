/**
 * One class of error for all modules. Its `code` is the promise: it never changes its meaning, it crosses the wire
 * unchanged, and it is what callers compare. The message is for people and may be reworded at any time.
 *
 * Only codes that the source throws are in the table; test/house/errors.test.ts compares the table with the
 * source and with docs/errors.md, so none can be promised without being real, or thrown without being documented.
 */

/** Every code: the HTTP status it has on the wire, and what it means in one line. */
export const errorCodes = {
  invalid_argument: {
    status: 400,
    meaning: 'An option, a field or the request itself is not as it must be.',
  },
  transaction_required: {
    status: 400,
    meaning: 'The connection handed in as `tx` is not in a transaction.',
  },
  transaction_unsupported: {
    status: 400,
    meaning: 'This engine cannot take part in a transaction of the caller.',
  },
  wrong_database: {
    status: 400,
    meaning: 'The transaction handed in as `tx` belongs to another database than the store.',
  },
  unauthorized: { status: 401, meaning: 'No token came with the request, or not one that is valid now.' },
  forbidden: { status: 403, meaning: 'The request was understood and is refused to this caller.' },
  not_found: { status: 404, meaning: 'There is no such thing, or no such route.' },
  method_not_allowed: { status: 405, meaning: 'The path is there, but not with this method.' },
  request_timeout: { status: 408, meaning: 'The request did not arrive whole in the time allowed.' },
  conflict: { status: 409, meaning: 'The thing is in a state that does not allow this.' },
  in_progress: {
    status: 409,
    meaning: 'A request with the same Idempotency-Key has begun and has not ended yet.',
  },
  copy_mismatch: {
    status: 409,
    meaning: 'Two databases that should have the same content have not.',
  },
  copy_source_busy: {
    status: 409,
    meaning: 'Somebody still works in the database that is to be copied.',
  },
  copy_source_changed: {
    status: 409,
    meaning: 'The database that is copied kept changing meanwhile.',
  },
  copy_target_taken: {
    status: 409,
    meaning: 'The database to copy to has content that this copy did not put there.',
  },
  lease_lost: {
    status: 409,
    meaning: 'The job or lock is no longer held with this token: it ended, ran out or was taken over.',
  },
  transaction_conflict: {
    status: 409,
    meaning:
      'The database gave the transaction up: deadlock, serialisation or lock wait. It can be tried again.',
  },
  too_large: { status: 413, meaning: 'It is larger than is taken.' },
  fingerprint_mismatch: {
    status: 422,
    meaning: 'The key was claimed before with another fingerprint: it stands for something else.',
  },
  invalid_payload: {
    status: 422,
    meaning: "The payload kept for this job does not fit its kind's schema.",
  },
  idempotency_mismatch: {
    status: 422,
    meaning: 'The Idempotency-Key was used before, for another route or another body.',
  },
  too_many: { status: 429, meaning: 'It is more than is allowed at once, or in so short a time.' },
  headers_too_large: { status: 431, meaning: 'The headers are larger than the server takes.' },
  internal: {
    status: 500,
    meaning: 'Signalbox failed in a way it did not foresee; the cause is in its log.',
  },
  ack_missing: {
    status: 500,
    meaning: 'A handler with `finish: "transaction"` returned without a committed ack.',
  },
  engine_unsupported: { status: 500, meaning: 'This is not a database that Signalbox works on.' },
  payload_sealed: {
    status: 500,
    meaning: 'What the job carries is sealed, and there is no key here that opens it.',
  },
  seal_broken: {
    status: 500,
    meaning: 'What is sealed was changed, or belongs to another owner: no key opens it.',
  },
  secret_sealed: {
    status: 500,
    meaning: 'The channel of a subscription is sealed, and this process has no key that opens it.',
  },
  seal_failed: {
    status: 500,
    meaning: 'The sealer threw, did not answer in time, or answered with nonsense.',
  },
  undecodable: { status: 500, meaning: 'What the store keeps for this job cannot be read.' },
  schema_failed: {
    status: 500,
    meaning: 'The schema of a kind threw, did not answer in time, or answered with nonsense.',
  },
  listen_failed: {
    status: 500,
    meaning: 'The server could not open its port: in use, not permitted or not there.',
  },
  closed: { status: 503, meaning: 'The thing was closed and cannot be used again.' },
  commit_unknown: {
    status: 503,
    meaning: 'The connection was lost while committing, so the outcome is not known yet.',
  },
  copy_unfinished: {
    status: 503,
    meaning: 'The database is being filled by a copy that has not ended.',
  },
  schema_missing: { status: 503, meaning: 'The database has no Signalbox tables.' },
  schema_newer: { status: 503, meaning: 'The database was made by a newer version of Signalbox.' },
  schema_outdated: { status: 503, meaning: 'The database was made by an older version of Signalbox.' },
  store_busy: { status: 503, meaning: 'The store is held by others and did not come free in time.' },
  store_unavailable: { status: 503, meaning: 'The store cannot be reached, or refused the call.' },
  overloaded: { status: 503, meaning: 'The server has more to do than it can, and takes no new work.' },
  draining: { status: 503, meaning: 'The server is shutting down and takes no new requests.' },
  transaction_timeout: {
    status: 503,
    meaning: 'The transaction took longer than it may and was rolled back.',
  },
  timeout: { status: 504, meaning: 'It took longer than its time-out.' },
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
