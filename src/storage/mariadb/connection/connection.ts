import type { ConnectionOptions } from 'mysql2/promise'
import { SignalboxError } from '../../../core/errors.ts'
import { show } from '../../../core/options.ts'

/**
 * The address of the database, and the settings of sessions. Nothing depends on the defaults of the server or the
 * account: Signalbox sets character set, collation, sql_mode, isolation and lock waits.
 */
export interface ConnectionTarget {
  readonly options: ConnectionOptions
  readonly database: string
  /** The maximum number of concurrent user transactions. */
  readonly poolSize: number
}

/** The time limit of any call: connecting, waiting for a connection, retries and statements together. */
export const callMs = 10_000

const allowedParams = ['pool', 'ssl', 'socket']

/** Parses `mysql://user:password@host:port/database?pool=20&ssl=true`. */
export function parseTarget(text: string): ConnectionTarget {
  let url: URL
  try {
    url = new URL(text)
  } catch {
    throw refuse('it is not a URL')
  }
  if (url.protocol !== 'mysql:' && url.protocol !== 'mariadb:') throw refuse('it must begin with mysql://')
  const database = decodeURIComponent(url.pathname.slice(1))
  if (database === '' || database.length > 64 || /[\p{Cc}/\\.]/u.test(database)) {
    throw refuse('it must name a database: mysql://user@host:3306/database')
  }
  for (const name of url.searchParams.keys()) {
    if (!allowedParams.includes(name)) {
      throw refuse(`it has no parameter ${show(name)}; it has ${allowedParams.join(', ')}`)
    }
  }
  const poolSize = Number(url.searchParams.get('pool') ?? 20)
  if (!Number.isInteger(poolSize) || poolSize < 1 || poolSize > 1_000)
    throw refuse('pool must be from 1 to 1000')
  const ssl = url.searchParams.get('ssl') ?? 'false'
  if (ssl !== 'true' && ssl !== 'false') throw refuse('ssl must be true or false')
  const socketPath = url.searchParams.get('socket')

  return {
    database,
    poolSize,
    options: {
      ...(socketPath === null
        ? { host: url.hostname.replace(/^\[|\]$/g, '') || '127.0.0.1', port: Number(url.port || 3306) }
        : { socketPath }),
      user: decodeURIComponent(url.username) || 'root',
      password: decodeURIComponent(url.password),
      database,
      charset: 'utf8mb4',
      connectTimeout: 5_000,
      // More prepared statements per connection would use too many of the server's 16,382 slots.
      maxPreparedStatements: 100,
      // An object bound as a value must never become `key` = value pairs: that is an injection.
      stringifyObjects: true,
      flags: ['-FOUND_ROWS'],
      ...(ssl === 'true' ? { ssl: {} } : {}),
    },
  }
}

function refuse(why: string): SignalboxError {
  // Do not show the URL: it may contain a password.
  return new SignalboxError('invalid_argument', `The MariaDB URL cannot be used: ${why}.`)
}

const isolation = 'SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED'
const names = 'SET NAMES utf8mb4 COLLATE utf8mb4_nopad_bin'

/**
 * Sessions for the store's statements. Lock waits are as short as MariaDB allows: a statement skips a locked row, or
 * the process tries again. A long IN list stays a list of keys: MariaDB would turn 1,000 or more keys into a join,
 * which could read and lock other rows. Sorting compares whole names instead of their first 1,024 bytes.
 * `max_statement_time` ends statements that no caller awaits any longer. `idle_transaction_timeout` ends transactions
 * of a process that hangs.
 */
export const ownSession: readonly string[] = [
  names,
  isolation,
  `SET SESSION sql_mode = 'STRICT_TRANS_TABLES,NO_ENGINE_SUBSTITUTION', time_zone = '+00:00',
    autocommit = 1, innodb_lock_wait_timeout = 1, in_predicate_conversion_threshold = 0, max_sort_length = 4096,
    max_statement_time = ${callMs / 1_000}, idle_transaction_timeout = ${2 * (callMs / 1_000)}`,
]

/**
 * Sessions for transactions on wait queues. A transaction of a process that hangs keeps other processes from its wait
 * queue; the server ends it before they give up.
 */
export const waitingSession: readonly string[] = [...ownSession, 'SET SESSION idle_transaction_timeout = 5']

/**
 * Sessions for users' transactions. READ COMMITTED, because with REPEATABLE READ a server with
 * `innodb_snapshot_isolation` would refuse the ack of each job whose lease was renewed since the transaction's first
 * read. Autocommit is off: otherwise a statement after a deadlock (which ends the transaction) would commit alone.
 * NO_BACKSLASH_ESCAPES would make the driver's quoting unsafe; the rest of sql_mode stays as on the server.
 */
export function userSession(serverMode: string): readonly string[] {
  const mode = serverMode
    .split(',')
    .filter((flag) => flag !== 'NO_BACKSLASH_ESCAPES' && /^[A-Z_]+$/.test(flag))
    .join(',')
  return [
    'SET NAMES utf8mb4',
    isolation,
    `SET SESSION sql_mode = '${mode}', autocommit = 0,
      innodb_lock_wait_timeout = LEAST(@@innodb_lock_wait_timeout, 10)`,
  ]
}
