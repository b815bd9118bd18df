import { nameOfDatabase } from '../config/value-kinds.ts'
import { type Finding, ok, problem, reasonOf, sentence, warning } from './finding.ts'

/**
 * What a store's server says of itself when it is asked directly, by its own driver: the time, and whether the
 * connection is encrypted. Nothing is written, not even what a store writes when it is opened.
 */
export interface Probe {
  readonly clock: ClockReading
  readonly isEncrypted: boolean
}

const timeoutMs = 5_000

/** Undefined: this store is on this machine and has its clock. */
export async function probeDatabase(name: string, url: string): Promise<Probe | undefined> {
  if (/^postgres(ql)?:/.test(url)) return probePostgres(name, url)
  if (/^(mysql|mariadb):/.test(url)) return probeMariadb(name, url)
  return undefined
}

async function probePostgres(name: string, address: string): Promise<Probe> {
  const { default: pg } = await import('pg')
  const url = new URL(address)
  // Ours, not the driver's.
  url.searchParams.delete('schema')
  url.searchParams.delete('pool')
  const client = new pg.Client({
    connectionString: url.href,
    connectionTimeoutMillis: timeoutMs,
    query_timeout: timeoutMs,
  })
  client.on('error', () => undefined)
  await client.connect()
  try {
    const clock = await readClock(name, async () => {
      const { rows } = await client.query('SELECT extract(epoch FROM clock_timestamp()) * 1000 AS now')
      return Number(rows[0].now)
    })
    const { rows } = await client.query('SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()')
    return { clock, isEncrypted: rows[0]?.ssl === true }
  } finally {
    await client.end().catch(() => undefined)
  }
}

async function probeMariadb(name: string, address: string): Promise<Probe> {
  const { createConnection } = await import('mysql2/promise')
  const url = new URL(address)
  const socketPath = url.searchParams.get('socket')
  const connection = await createConnection({
    ...(socketPath === null
      ? { host: url.hostname.replace(/^\[|\]$/g, '') || '127.0.0.1', port: Number(url.port || 3306) }
      : { socketPath }),
    user: decodeURIComponent(url.username) || 'root',
    password: decodeURIComponent(url.password),
    connectTimeout: timeoutMs,
    ...(url.searchParams.get('ssl') === 'true' ? { ssl: {} } : {}),
  })
  const ask = async (sql: string) => {
    const [rows] = await connection.query({ sql, timeout: timeoutMs })
    return (rows as readonly Record<string, unknown>[])[0]
  }
  try {
    const clock = await readClock(name, async () =>
      Number((await ask('SELECT UNIX_TIMESTAMP(NOW(3)) * 1000 AS now'))?.now),
    )
    const cipher = await ask("SHOW SESSION STATUS LIKE 'Ssl_cipher'")
    return { clock, isEncrypted: socketPath !== null || Boolean(cipher?.Value) }
  } finally {
    connection.destroy()
  }
}

/**
 * Clocks compared. Leases are judged by the store's own clock alone, so a wrong clock elsewhere breaks no promise; but
 * what is due at an instant, what is shown as "3 min ago" and what two stores say of one moment go wrong by as much.
 */
export interface ClockReading {
  /** The name of the machine or store. */
  readonly name: string
  /** How far it is before ours; negative: behind. */
  readonly aheadMs: number
  /** How wrong that may be: half of what the question took. */
  readonly sureToMs: number
}

const warnMs = 2_000
const problemMs = 60_000

/** Asks a clock and compares; the answer is taken as given in the middle of the question. */
export async function readClock(name: string, ask: () => Promise<number>): Promise<ClockReading> {
  const begunAt = Date.now()
  const begun = performance.now()
  const answered = await ask()
  const tookMs = performance.now() - begun
  return { name, aheadMs: answered - (begunAt + tookMs / 2), sureToMs: tookMs / 2 }
}

/** How the clocks differ, each from this machine's, and the stores' from each other. */
export function judgeClocks(readings: readonly ClockReading[]): readonly Finding[] {
  const own: ClockReading = { name: 'this machine', aheadMs: 0, sureToMs: 0 }
  const all = [own, ...readings]
  return all.flatMap((a, at) => all.slice(at + 1).map((b) => judgePair(a, b)))
}

function judgePair(a: ClockReading, b: ClockReading): Finding {
  const apartMs = b.aheadMs - a.aheadMs
  const sureMs = Math.max(0, Math.abs(apartMs) - a.sureToMs - b.sureToMs)
  const subject = `${a.name}, ${b.name}`
  if (sureMs < warnMs) return ok('clocks', subject, 'The clocks agree.')
  const text = `The clock of ${b.name} is ${showMs(sureMs)} ${apartMs > 0 ? 'ahead of' : 'behind'} that of ${a.name}.`
  const advice = 'Synchronize both clocks with NTP (chrony, systemd-timesyncd).'
  return (sureMs < problemMs ? warning : problem)('clocks', subject, text, advice)
}

function showMs(ms: number): string {
  return ms < 120_000 ? `${(ms / 1_000).toFixed(1)} s` : `${Math.round(ms / 60_000)} min`
}

/** What a Redis says of itself, by INFO. */
export interface RedisFacts {
  readonly version: string
  readonly isReplica: boolean
  readonly evictionPolicy: string
  readonly hasAppendOnlyFile: boolean
}

/**
 * Looks at a Redis. A store is not opened on it: that would greet the server, which writes. Only INFO and TIME are asked.
 */
export async function examineRedis(
  url: string,
): Promise<{ readonly findings: readonly Finding[]; readonly clock: ClockReading | undefined }> {
  const name = nameOfDatabase(url)
  try {
    const { info, clock } = await askRedis(name, url)
    return { findings: judgeRedis(name, readFacts(info)), clock }
  } catch (error) {
    const unreachable = problem(
      'store',
      name,
      `Redis does not answer: ${sentence(reasonOf(error))}`,
      'Start it, or correct the address (--redis, SIGNALBOX_REDIS) and its password.',
    )
    return { findings: [unreachable], clock: undefined }
  }
}

async function askRedis(name: string, url: string): Promise<{ info: string; clock: ClockReading }> {
  const { createClient } = await import('@redis/client')
  const client = createClient({
    url,
    RESP: 2,
    disableOfflineQueue: true,
    disableClientInfo: true,
    maintNotifications: 'disabled',
    commandOptions: { timeout: timeoutMs },
    socket: { connectTimeout: timeoutMs, reconnectStrategy: false },
  })
  client.on('error', () => undefined)
  try {
    await client.connect()
    const info = String(await client.sendCommand(['INFO']))
    const clock = await readClock(name, async () => {
      const [seconds, microseconds] = (await client.sendCommand(['TIME'])) as unknown as readonly string[]
      return Number(seconds) * 1_000 + Number(microseconds) / 1_000
    })
    return { info, clock }
  } finally {
    client.destroy()
  }
}

/** The facts in an answer to INFO. */
export function readFacts(info: string): RedisFacts {
  const fact = (name: string) => new RegExp(`^${name}:(.*?)\\r?$`, 'm').exec(info)?.[1] ?? ''
  return {
    version: fact('redis_version'),
    isReplica: fact('role') === 'slave',
    evictionPolicy: fact('maxmemory_policy'),
    hasAppendOnlyFile: fact('aof_enabled') === '1',
  }
}

/** The same demands that a server makes when it opens it. */
export function judgeRedis(
  name: string,
  { version, isReplica, evictionPolicy, hasAppendOnlyFile }: RedisFacts,
): readonly Finding[] {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const findings: Finding[] = []
  if (major < 6 || (major === 6 && minor < 2))
    findings.push(
      problem('store', name, `It is Redis ${version}; 6.2 or newer is required.`, 'Upgrade the server.'),
    )
  if (isReplica)
    findings.push(
      problem('store', name, 'It is a replica and takes no writes.', 'Use the address of the primary.'),
    )
  if (evictionPolicy !== 'noeviction')
    findings.push(
      problem(
        'eviction',
        name,
        `It evicts keys, including locks, when its memory is full (maxmemory-policy ${evictionPolicy}).`,
        'Set maxmemory-policy to noeviction.',
      ),
    )
  if (!hasAppendOnlyFile)
    findings.push(
      warning(
        'durability',
        name,
        'It has no append-only file (appendonly no): a restart loses all locks and wait queues.',
        'Set appendonly to yes.',
      ),
    )
  return findings.length > 0
    ? findings
    : [ok('store', name, `Redis ${version} answers, and its settings are safe.`)]
}
