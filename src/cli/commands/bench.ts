import { randomBytes } from 'node:crypto'
import { rmSync } from 'node:fs'
import { cpus } from 'node:os'
import { Argument, type Command } from 'commander'
import { invalidArgument } from '../../core/errors.ts'
import type { Bench, BenchLine, Raw } from '../bench-workloads.ts'
import { resolveGiven } from '../config/config.ts'
import { addStoreFlags, sourcesOf } from '../config/flags.ts'
import { nameOfDatabase } from '../config/value-kinds.ts'
import { createProgress, printTable } from '../print.ts'
import type { CommandContext } from '../verbs.ts'
import { CliCommand, requireDatabase } from './cli-command.ts'
import { Interrupted } from './locked-child.ts'

const modules = ['jobs', 'locks', 'once'] as const
type BenchModule = (typeof modules)[number]

interface BenchFlags {
  readonly seconds: string
  readonly json?: boolean
}

/** The number of cases of a module, with the raw case. */
const caseCounts: Readonly<Record<BenchModule, number>> = { jobs: 7, locks: 4, once: 4 }

/** `signalbox bench MODULE`: measures this machine and a database, in a separate namespace. */
export function benchCommand({ printer, endWith }: CommandContext): Command {
  const command = new CliCommand('bench')
    .addArgument(new Argument('<module>', 'what to measure').choices(modules))
    .option('--seconds <number>', 'the duration, roughly', '10')
    .option('--json', 'answer with one line of JSON')
    .note(
      'Without --database it uses a SQLite file in this folder and removes it at the end. In your database it uses a separate',
      'namespace and table and removes both. It competes with other load on the database. RAW is the rate of bare commits,',
      'one row each: the limit of the database.',
    )
    .examples('bench jobs', 'bench locks --database postgres://app@db/shop --seconds 30', 'bench once --json')
    .action(async (module: BenchModule, { seconds, json = false }: BenchFlags) => {
      if (!/^\d{1,4}$/.test(seconds) || Number(seconds) < 1 || Number(seconds) > 3_600)
        throw invalidArgument('--seconds must be a whole number from 1 to 3600.')
      const measured = await measure(command, module, Number(seconds)).catch((error: unknown) => {
        if (!(error instanceof Interrupted)) throw error
        endWith(error.exitCode)
      })
      if (!measured) return
      const { lines, where, noRaw } = measured
      if (json) printer.json({ module, ...where, cases: lines })
      else {
        printer.line(`${module} on ${where.redis ?? where.database}, Node ${where.node}, ${where.cpu}`)
        printTable(printer, ['CASE', 'PER SECOND', 'P50', 'P99', 'RAW', 'WHAT'], lines.map(rowOf))
      }
      if (noRaw !== undefined) printer.problem(`the raw rate could not be measured: ${noRaw}`)
    })
  addStoreFlags(command)
  const database = command.options.find(({ long }) => long === '--database')!
  database.defaultValueDescription = 'a SQLite file that is removed at the end'
  return command
}

async function measure(command: Command, module: BenchModule, seconds: number) {
  requireDatabase(command, 'bench', 'It cannot measure through a server.')
  const sources = sourcesOf(command)
  const given = resolveGiven('database', sources)
  const redis = resolveGiven('redis', sources)
  if (given?.startsWith('memory:'))
    throw invalidArgument(
      'A memory: database stores nothing, so there is nothing to measure. Name another with --database.',
    )
  const tag = `bench-${randomBytes(6).toString('hex')}`
  const file = given === undefined ? `signalbox-${tag}.db` : undefined
  const database = given ?? `sqlite:${file}`
  const stopping = new AbortController()
  const interrupt = (_: NodeJS.Signals, number: number) => stopping.abort(new Interrupted(128 + number))
  process.once('SIGINT', interrupt).once('SIGTERM', interrupt)
  using progress = createProgress()
  const startedAt = performance.now()
  const bench: Bench = {
    caseMs: (seconds * 1_000) / caseCounts[module],
    signal: stopping.signal,
    tick: (what) => progress.show(`${module}: ${what}`, (performance.now() - startedAt) / 1_000, seconds),
  }
  try {
    const { open } = await import('../../index.ts')
    const { benchLocksOptions: locks, measureRaw, workloads } = await import('../bench-workloads.ts')
    const { run, forget } = workloads[module]
    await using box = await open(database, { namespace: tag, redis, locks, contention: false, series: false })
    let raw: Raw | undefined
    let noRaw: string | undefined
    try {
      // A Redis has no raw rate.
      if (module === 'jobs' || redis === undefined) raw = await measureRaw(bench, database)
    } catch (error) {
      bench.signal.throwIfAborted()
      // Such as a user without the right to create a table.
      noRaw = (error as Error).message
    }
    try {
      const lines = await run(bench, box, raw)
      return { lines, noRaw, where: describeMachine(database, module === 'jobs' ? undefined : redis) }
    } finally {
      await forget(box)
    }
  } finally {
    process.off('SIGINT', interrupt).off('SIGTERM', interrupt)
    if (file !== undefined) for (const end of ['', '-wal', '-shm']) rmSync(file + end, { force: true })
  }
}

function describeMachine(database: string, redis: string | undefined) {
  return {
    database: nameOfDatabase(database),
    redis: redis === undefined ? null : nameOfDatabase(redis),
    node: process.versions.node,
    cpu: `${cpus().length} × ${cpus()[0]?.model.trim() ?? 'unknown'}`,
  }
}

function rowOf({ name, what, perSecond, p50Ms, p99Ms, rawPerSecond }: BenchLine): readonly (string | null)[] {
  const count = (number: number) => Math.round(number).toLocaleString('en-US')
  const span = (ms: number | null) => (ms === null ? null : `${ms.toFixed(ms < 10 ? 2 : 0)} ms`)
  const raw = rawPerSecond === null ? null : count(rawPerSecond)
  return [name, count(perSecond), span(p50Ms), span(p99Ms), raw, what]
}
