import { Client, type ClientConfig } from 'pg'
import { SignalboxError } from '../../../core/errors.ts'
import { whole } from '../../../core/options.ts'
import { sqlState, toStoreError } from './failures.ts'

/** A database as its address says, and how one connects to it. */
export interface Target {
  readonly config: ClientConfig
  /** As `?schema=` gave it; undefined means whatever the connection's search_path says. */
  readonly schema: string | undefined
  /** How many transactions of handlers may be open at once. */
  readonly poolSize: number
}

const connectMs = 10_000

/**
 * What the store's own statements are planned with. Their plans are made once per connection, perhaps while the tables
 * were empty, when a sequential scan looks cheapest; with a million rows in them it would be ruinous.
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
 * Whether the server takes settings when a connection is made. A pooler refuses them, and settings made later would
 * stay with connections that others use; there the client's own deadlines must do.
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
