import { nameOfDatabase } from '../config/value-kinds.ts'
import { type Finding, ok, problem, reasonOf, sentence, warning } from './finding.ts'
import { type ClockReading, readClock } from './probes.ts'

/** What a Redis says of itself, by INFO. */
export interface RedisFacts {
  readonly version: string
  readonly isReplica: boolean
  readonly evictionPolicy: string
  readonly hasAppendOnlyFile: boolean
}

const timeoutMs = 5_000

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
      'Start it, or mend the address (--redis, SIGNALBOX_REDIS) and its password.',
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
      problem('store', name, `It is Redis ${version}; 6.2 or newer is needed.`, 'Upgrade the server.'),
    )
  if (isReplica)
    findings.push(
      problem('store', name, 'It is a replica and takes no writes.', 'Give the address of the primary.'),
    )
  if (evictionPolicy !== 'noeviction')
    findings.push(
      problem(
        'eviction',
        name,
        `It removes keys when its memory is full (maxmemory-policy ${evictionPolicy}), and locks among them.`,
        'Set maxmemory-policy to noeviction.',
      ),
    )
  if (!hasAppendOnlyFile)
    findings.push(
      warning(
        'durability',
        name,
        'It keeps no append-only file (appendonly no): a restart loses all locks and positions in wait queues.',
        'Set appendonly to yes.',
      ),
    )
  return findings.length > 0 ? findings : [ok('store', name, `Redis ${version} answers, and is set up well.`)]
}
