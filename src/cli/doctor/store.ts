import type { ListedToken } from '../../access/index.ts'
import { isSignalboxError } from '../../core/errors.ts'
import { isReserved } from '../../jobs/index.ts'
import type { MonitorProblems } from '../../monitor/index.ts'
import { beforeBaseline, copyMark, type MigrationStatus } from '../../storage/index.ts'
import type { Backend } from '../../storage/open.ts'
import { readAll } from '../commands/cli-command.ts'
import type { ResolvedConfig } from '../config/config.ts'
import { nameOfDatabase } from '../config/value-kinds.ts'
import {
  about,
  type Finding,
  isLoopback,
  judgeMonitor,
  judgeQueues,
  judgeRetention,
  judgeTokens,
  manyEnded,
  reasonOf,
  sentence,
  whereOf,
} from './judging.ts'
import { type ClockReading, examineRedis, judgeClocks, probeDatabase } from './probes.ts'

/** The findings about the store, and the facts for judging the configuration. */
export interface StoreExamined {
  readonly findings: readonly Finding[]
  /** Undefined: unknown. */
  readonly hasTokens: boolean | undefined
}

/** Checks the store that a server started here would open. Writes nothing. */
export async function examineStore(config: ResolvedConfig, namespace: string): Promise<StoreExamined> {
  const { database, redis } = config.values
  const clocks: ClockReading[] = []
  const { findings, hasTokens } = database.startsWith('memory:')
    ? { findings: [], hasTokens: false }
    : await examineDatabase(config, namespace, clocks)
  const cache = redis === undefined ? undefined : await examineRedis(redis)
  if (cache?.clock !== undefined) clocks.push(cache.clock)
  return { findings: [...findings, ...(cache?.findings ?? []), ...judgeClocks(clocks)], hasTokens }
}

async function examineDatabase(
  config: ResolvedConfig,
  namespace: string,
  clocks: ClockReading[],
): Promise<StoreExamined> {
  const { database, migrate } = config.values
  const name = nameOfDatabase(database)
  const findings: Finding[] = []
  try {
    // This comes first, because its error explains which driver is missing, or what the address lacks.
    const { openMigrator } = await import('../../storage/index.ts')
    await using migrator = await openMigrator(database)
    const status = await migrator.status()
    findings.push(judgeSchema(name, status, migrate))
    const probe = await probeDatabase(name, database)
    if (probe !== undefined) {
      clocks.push(probe.clock)
      findings.push(...judgeEncryption(name, database, probe.isEncrypted))
    }
    // A store is opened only on the schema that it knows.
    if (!status.isRunnable) return { findings, hasTokens: status.current === 0 ? false : undefined }
    const opened = await examineOpened(config, namespace, name)
    return { findings: [...findings, ...opened.findings], hasTokens: opened.hasTokens }
  } catch (error) {
    const advice = isSignalboxError(error, 'engine_unsupported')
      ? 'Use a supported database.'
      : 'Start it, or correct its address (--database, SIGNALBOX_DATABASE) and its password.'
    const reason = `It cannot be used: ${sentence(reasonOf(error))}`
    return { findings: [...findings, about('store', name).problem(reason, advice)], hasTokens: undefined }
  }
}

function judgeEncryption(name: string, database: string, isEncrypted: boolean): readonly Finding[] {
  if (isEncrypted || isLoopback(new URL(database).hostname || 'localhost')) return []
  return [
    about('tls', name).warning(
      'The connection to another machine is not encrypted.',
      'Ask for TLS in its address (Postgres: ?sslmode=verify-full, MariaDB: ?ssl=true), or make sure that the network is private.',
    ),
  ]
}

async function examineOpened(
  { values, sources, secretKeys }: ResolvedConfig,
  namespace: string,
  name: string,
): Promise<StoreExamined> {
  const { openBackend } = await import('../../storage/open.ts')
  await using backend = await openBackend(values.database, { namespace, migrate: false })
  const tokens = await listTokens(backend)
  const now = Date.now()
  const queues = await backend.jobs.stats()
  const problems = await monitorProblems(backend, namespace, secretKeys)
  const secretSource = values.secretKey === undefined ? sources.secretKeyFile : sources.secretKey
  const completed = values.retention === undefined ? await countCompleted(backend) : 0
  return {
    findings: [
      ...judgeWarnings(name, backend.warnings),
      ...judgeTokens(tokens, now),
      ...judgeQueues(
        queues.filter(({ queue }) => !isReserved(queue)),
        now,
      ),
      ...judgeMonitor(problems, {
        hasKey: secretKeys.length > 0,
        source: whereOf('secretKey', secretSource),
      }),
      judgeRetention(whereOf('retention', sources.retention), values.retention, completed),
    ],
    hasTokens: await backend.tokens.hasLive(),
  }
}

/** The warnings of the engine, which include what to do. */
export function judgeWarnings(name: string, warnings: readonly string[]): readonly Finding[] {
  const { ok, warning } = about('durability', name)
  if (warnings.length === 0) return [ok('Committed writes survive a crash.')]
  return warnings.map((text) => warning(text, 'Change this setting of the database.'))
}

async function listTokens({ tokens: store }: Backend): Promise<readonly ListedToken[]> {
  const { createTokens } = await import('../../access/index.ts')
  const tokens = createTokens({ store })
  return readAll((cursor) => tokens.list({ limit: 500, cursor }))
}

async function monitorProblems(
  { monitor: store, jobs, guards, ownGuards, notifier }: Backend,
  namespace: string,
  keys: readonly string[],
): Promise<MonitorProblems> {
  const { createMonitor, SecretKeys } = await import('../../monitor/index.ts')
  const secretKeys = keys.length === 0 ? undefined : new SecretKeys('secretKey', keys)
  const parts = { store, jobs, guards: ownGuards ?? guards, notifier, namespace, secretKeys }
  await using monitor = createMonitor(parts)
  return await monitor.problems()
}

/** The number of completed jobs, as far as one search reads. */
async function countCompleted({ jobs: store, logs, notifier }: Backend): Promise<number> {
  const { createJobs } = await import('../../jobs/index.ts')
  await using jobs = createJobs({ store, logs, notifier, worksBulk: false })
  const completed = { action: 'delete', search: 'state:completed', limit: manyEnded } as const
  return (await jobs.bulk({ ...completed, dryRun: true })).matched
}

/** Judges the schema of a database. `migrates`: a server started here would migrate it. */
export function judgeSchema(
  name: string,
  { current, latest, pending, isRunnable, isBeforeBaseline }: MigrationStatus,
  migrates: boolean,
): Finding {
  const { ok, warning, problem } = about('schema', name)
  if (isBeforeBaseline) {
    const [fact, ...advice] = beforeBaseline.split(/(?<=\.) /)
    return problem(`It ${fact}`, advice.join(' '))
  }
  if (current === latest) return ok(`It is up to date: schema ${current}.`)
  if (isRunnable)
    return warning(
      `It has schema ${current} of a newer Signalbox; this version (${latest}) still works with it.`,
      'Upgrade Signalbox here before the next release.',
    )
  if (current === copyMark)
    return problem(
      'It is the target of an unfinished `signalbox copy`.',
      'Run the same copy again: it continues.',
    )
  if (current > latest)
    return problem(
      `It has schema ${current} of a newer Signalbox; this version knows ${latest}.`,
      'Upgrade Signalbox here.',
    )
  const advice = 'Run `signalbox migrate up`.'
  const steps = `${pending.length} ${pending.length === 1 ? 'step is' : 'steps are'} missing`
  const found = `It has schema ${current} of ${latest}: ${steps}`
  if (!migrates) return problem(current === 0 ? 'There is no schema.' : `${found}.`, advice)
  return current === 0
    ? ok('There is no schema yet; serve creates it at start.')
    : warning(`${found}, which serve applies at start.`, `${advice} Or leave it to serve.`)
}
