import { Client, type ClientConfig } from 'pg'
import { SignalboxError } from '../../../core/errors.ts'
import { whole } from '../../../core/options.ts'
import { sqlState, toStoreError } from './failures.ts'

/** The parts of a database address, and the driver's configuration. */
export interface Target {
  readonly config: ClientConfig
  /** The value of `?schema=`. Undefined: the first schema of the connection's search_path. */
  readonly schema: string | undefined
  /** How many transactions of handlers may be open at once. */
  readonly poolSize: number
}

const connectMs = 10_000

/**
 * The planner settings for the store's statements. A connection plans each statement once, perhaps while the tables are
 * empty and a sequential scan looks cheapest. With a million rows, such a plan would be ruinous.
 */
export const plannerSettings =
  '-c enable_seqscan=off -c enable_bitmapscan=off -c jit=off -c plan_cache_mode=force_generic_plan -c default_transaction_isolation=read\\ committed'

export function parseTarget(url: string): Target {
  let parsed: URL
  try {
    parsed = new URL(url)
  } catch {
    throw new SignalboxError(
      'invalid_argument',
      'The Postgres address is not a URL like postgres://user:password@host:5432/database.',
    )
  }
  const schema = parsed.searchParams.get('schema') ?? undefined
  if (schema !== undefined && !/^[a-z_][a-z0-9_]{0,30}$/.test(schema)) {
    throw new SignalboxError(
      'invalid_argument',
      'The schema in the Postgres address must be 1 to 31 small letters, digits and underscores, and begin with no digit.',
    )
  }
  const pool = parsed.searchParams.get('pool')
  const poolSize = whole('pool in the Postgres address', pool === null ? 20 : Number(pool), {
    min: 1,
    max: 1_000,
  })
  parsed.searchParams.delete('schema')
  parsed.searchParams.delete('pool')
  const config: ClientConfig = {
    connectionString: parsed.href,
    connectionTimeoutMillis: connectMs,
    keepAlive: true,
    keepAliveInitialDelayMillis: 10_000,
    fallback_application_name: 'signalbox',
  }
  return { config, schema, poolSize }
}

/**
 * Whether the server accepts settings when a connection opens. A pooler refuses them, and later settings would stay on
 * connections that other clients use. With a pooler, only the time-outs of the client apply.
 */
export async function takesOptions({ config }: Target): Promise<boolean> {
  const client = new Client({ ...config, options: plannerSettings })
  client.on('error', () => undefined)
  try {
    await client.connect()
    return true
  } catch (error) {
    if (sqlState(error) === '08P01' || /startup parameter/i.test(String(error))) return false
    throw toStoreError(error)
  } finally {
    await client.end().catch(() => undefined)
  }
}
