import { nameOfDatabase } from '../config/value-kinds.ts'
import { connectStore } from '../store-connection.ts'
import { about, type Finding, reasonOf, sentence } from './judging.ts'

/**
 * Asks a store's server directly, by its own driver: the time, and whether the connection is encrypted. It writes
 * nothing, not even the rows that opening a store writes.
 */
export interface Probe {
  readonly clock: ClockReading
  readonly isEncrypted: boolean
}

const timeoutMs = 5_000

/** Returns undefined for a store on this machine, which uses the machine's clock. */
export async function probeDatabase(name: string, url: string): Promise<Probe | undefined> {
  const isPostgres = /^postgres(ql)?:/.test(url)
  if (!isPostgres && !/^(mysql|mariadb):/.test(url)) return undefined
  await using connection = await connectStore(url, timeoutMs)
  const ask = async (sql: string) => (await connection.query(sql))[0]
  const now = isPostgres ? 'extract(epoch FROM clock_timestamp())' : 'UNIX_TIMESTAMP(NOW(3))'
  const clock = await readClock(name, async () => Number((await ask(`SELECT ${now} * 1000 AS now`))?.now))
  if (isPostgres) {
    const answer = await ask('SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()')
    return { clock, isEncrypted: answer?.ssl === true }
  }
  const cipher = await ask("SHOW SESSION STATUS LIKE 'Ssl_cipher'")
  const isLocal = new URL(url).searchParams.has('socket')
  return { clock, isEncrypted: isLocal || Boolean(cipher?.Value) }
}

/**
 * Compares clocks. Only the store's own clock judges leases, so a wrong clock elsewhere breaks no promise. But due
 * times, ages such as "3 min ago", and the times of two stores are wrong by the difference.
 */
export interface ClockReading {
  /** The name of the machine or store. */
  readonly name: string
  /** How far it is ahead of this machine's clock; negative: behind. */
  readonly aheadMs: number
  /** The possible error: half of the time of the request. */
  readonly sureToMs: number
}

const warnMs = 2_000
const problemMs = 60_000

/** Reads a clock and compares it. It assumes that the answer was made in the middle of the request. */
export async function readClock(name: string, ask: () => Promise<number>): Promise<ClockReading> {
  const begunAt = Date.now()
  const begun = performance.now()
  const answered = await ask()
  const tookMs = performance.now() - begun
  return { name, aheadMs: answered - (begunAt + tookMs / 2), sureToMs: tookMs / 2 }
}

/** Judges how the clocks differ from this machine's clock, and the stores' clocks from each other. */
export function judgeClocks(readings: readonly ClockReading[]): readonly Finding[] {
  const own: ClockReading = { name: 'this machine', aheadMs: 0, sureToMs: 0 }
  const all = [own, ...readings]
  return all.flatMap((a, at) => all.slice(at + 1).map((b) => judgePair(a, b)))
}

function judgePair(a: ClockReading, b: ClockReading): Finding {
  const apartMs = b.aheadMs - a.aheadMs
  const sureMs = Math.max(0, Math.abs(apartMs) - a.sureToMs - b.sureToMs)
  const { ok, warning, problem } = about('clocks', `${a.name}, ${b.name}`)
  if (sureMs < warnMs) return ok('The clocks agree.')
  const text = `The clock of ${b.name} is ${showMs(sureMs)} ${apartMs > 0 ? 'ahead of' : 'behind'} that of ${a.name}.`
  const advice = 'Synchronize both clocks with NTP (chrony, systemd-timesyncd).'
  return (sureMs < problemMs ? warning : problem)(text, advice)
}

function showMs(ms: number): string {
  return ms < 120_000 ? `${(ms / 1_000).toFixed(1)} s` : `${Math.round(ms / 60_000)} min`
}

/** The facts that a Redis gives with INFO. */
export interface RedisFacts {
  readonly version: string
  readonly isReplica: boolean
  readonly evictionPolicy: string
  readonly hasAppendOnlyFile: boolean
}

/**
 * Checks a Redis with INFO and TIME only. It opens no store, because opening writes.
 */
export async function examineRedis(
  url: string,
): Promise<{ readonly findings: readonly Finding[]; readonly clock: ClockReading | undefined }> {
  const name = nameOfDatabase(url)
  try {
    const { info, clock } = await askRedis(name, url)
    return { findings: judgeRedis(name, readFacts(info)), clock }
  } catch (error) {
    const unreachable = about('store', name).problem(
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

/** Judges a Redis by the same rules as a server that opens it. */
export function judgeRedis(
  name: string,
  { version, isReplica, evictionPolicy, hasAppendOnlyFile }: RedisFacts,
): readonly Finding[] {
  const [major = 0, minor = 0] = version.split('.').map(Number)
  const store = about('store', name)
  const findings: Finding[] = []
  if (major < 6 || (major === 6 && minor < 2))
    findings.push(store.problem(`It is Redis ${version}; 6.2 or newer is required.`, 'Upgrade the server.'))
  if (isReplica)
    findings.push(store.problem('It is a replica and takes no writes.', 'Use the address of the primary.'))
  if (evictionPolicy !== 'noeviction')
    findings.push(
      about('eviction', name).problem(
        `It evicts keys, including locks, when its memory is full (maxmemory-policy ${evictionPolicy}).`,
        'Set maxmemory-policy to noeviction.',
      ),
    )
  if (!hasAppendOnlyFile)
    findings.push(
      about('durability', name).warning(
        'It has no append-only file (appendonly no): a restart loses all locks and wait queues.',
        'Set appendonly to yes.',
      ),
    )
  return findings.length > 0 ? findings : [store.ok(`Redis ${version} answers, and its settings are safe.`)]
}
