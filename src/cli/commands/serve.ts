import type { Command } from 'commander'
import { SignalboxError } from '../../core/errors.ts'
import { version } from '../../core/version.ts'
import type { Log, Server, ServerOptions } from '../../http/server/index.ts'
import type { OpenOptions } from '../../index.ts'
import type { Backend } from '../../storage/open.ts'
import { type ResolvedConfig, resolveConfig } from '../config/config.ts'
import { addSettingFlags, configSources } from '../config/flags.ts'
import { createTlsReader, type ReadTls } from '../config/named-files.ts'
import { type Config, type SettingName, settingNames, settings } from '../config/settings.ts'
import { type Kind, nameOfDatabase } from '../config/value-kinds.ts'
import { type Printer, printTable } from '../print.ts'
import { listenForStop } from '../signals.ts'
import type { CommandContext } from '../verbs.ts'
import { CliCommand } from './cli-command.ts'

/** If the server has not closed this long after its grace, the process exits. */
const forceAfterMs = 5_000
/** The delay of the first garbage collection, which is after the first requests loaded their modules. */
const collectAfterMs = 2_000

/** `signalbox serve`: runs the server until a signal stops it. */
export function serveCommand({ printer, prepareServe }: CommandContext): Command {
  const command = new CliCommand('serve')
    .exampleLines(
      'signalbox serve --port 8080',
      'signalbox serve --database postgres://app@db/shop --retention 30d',
      'SIGNALBOX_PORT=8080 signalbox serve --json',
      'signalbox config print',
    )
    .action(async () => {
      // Check everything before opening anything.
      const config = resolveConfig(configSources(command))
      const readTls = await createTlsReader(config)
      const tls = readTls?.()
      await prepareServe?.()
      await serve(config, printer, tls && { ...tls, readAgain: readTls! })
    })
  return addSettingFlags(command)
}

interface ReloadableTls extends ReadTls {
  readAgain(): ReadTls
}

async function serve(
  { values, secrets, secretKeys }: ResolvedConfig,
  printer: Printer,
  tls: ReloadableTls | undefined,
): Promise<void> {
  const begunAt = performance.now()
  const stop = listenForStop(values.grace + forceAfterMs, (why) => {
    printer.problem(`${why}. Open requests were cut off.`)
    process.exit(1)
  })
  // Imported here, so that other commands and the help load no engine and no HTTP server.
  const { open } = await import('../../index.ts')
  const { database, redis, guards, migrate, thread } = values
  if (!migrate) await requireSchema(database)
  // Open the store while the server's modules load.
  const secretKey = secretKeys.length === 0 ? undefined : secretKeys
  const opening = open(database, { migrate, thread, redis, guards, secretKey, ...moduleOptions(values) })
  const [{ createLog, createServer }] = await Promise.all([import('../../http/server/index.ts'), opening])
  await using box = await opening
  await using log = createLog({
    level: values.logLevel,
    quietHealth: values.quietHealth,
    // Standard output has only the address.
    destination: process.stderr,
  })
  const sinceMs = (at: number) => Math.round(performance.now() - at)
  log.info('server.start', {
    version,
    pid: process.pid,
    node: process.versions.node,
    database: nameOfDatabase(database),
  })
  await using server = createServer({ box, bootstrap: secrets, log, tls: tls?.tls, ...serverOptions(values) })
  if (tls !== undefined) {
    const expiresAt = new Date(tls.expiresAt).toISOString()
    if (tls.expiresAt <= Date.now()) log.warn('tls.expired', { expiresAt })
    reloadOnHangup(tls.readAgain, server, log)
  }
  if (stop.isAsked) return
  const { url } = await server.listen()
  const hasSecretKey = secretKey !== undefined
  await announce(values, url, { hasToken: secrets.length > 0, hasSecretKey }, box.backend, printer)
  const readyAt = performance.now()
  log.info('server.ready', { url, afterMs: sinceMs(begunAt) })
  setTimeout(() => void collectGarbage(), collectAfterMs).unref()
  const signal = await stop.asked
  log.info('server.draining', { signal, graceMs: values.grace })
  const drainingAt = performance.now()
  await server.close()
  log.info('server.stop', { drainedMs: sinceMs(drainingAt), uptimeMs: sinceMs(readyAt) })
}

/**
 * The start leaves about 25 MB of garbage. An idle server would keep it, because V8 collects only when it needs memory. One
 * collection after the start returns this memory to the system.
 */
async function collectGarbage(): Promise<void> {
  const [{ setFlagsFromString }, { runInNewContext }] = await Promise.all([
    import('node:v8'),
    import('node:vm'),
  ])
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as NodeJS.GCFunction
  await collect({ type: 'major', execution: 'async' })
}

/** Reads the certificates again on SIGHUP. If they are not usable, the server keeps the present ones. */
function reloadOnHangup(read: () => ReadTls, server: Server, log: Log): void {
  process.on('SIGHUP', () => {
    try {
      const { tls, expiresAt } = read()
      server.setTls(tls)
      log.info('tls.reloaded', { expiresAt: new Date(expiresAt).toISOString() })
    } catch (error) {
      log.error('tls.reload_failed', { error })
    }
  })
}

/** Converts the settings into the options of `open`. */
export function moduleOptions(values: Config): OpenOptions {
  return {
    locks: { multiNode: values.locksMultiNode, conflicts: values.locksConflicts },
    once: { whenDown: values.onceWhenDown, timeoutMs: values.onceTimeout },
    monitor: {
      lockTtlMs: values.monitorDistributedLockTtl,
      notificationIntervalMs: values.monitorDistributedNotificationInterval,
      eventDedupTtlMs: values.monitorDistributedEventDedupTtl,
      batchSize: values.monitorPerformanceBatchSize,
      maxConcurrent: values.monitorPerformanceMaxConcurrent,
      keepMs: values.monitorKeep,
    },
    dispatch: {
      heartbeatMs: values.dispatchHeartbeat,
      suspectAfterMs: values.dispatchSuspectAfter,
      goneAfterMs: values.dispatchGoneAfter,
      closedGraceMs: values.dispatchClosedGrace,
      leaseMs: values.dispatchLease,
      serverLeaseMs: values.dispatchServerLease,
      policy: { acceptMs: values.dispatchAccept },
    },
    allowPrivate: values.allowPrivate,
    alerts: {
      behindMs: values.alertsBehind,
      noWorkerMs: values.alertsNoWorker,
      lockMs: values.alertsLock,
      everyMs: values.alertsEvery,
    },
    series: values.series && { minutesMs: values.seriesMinutes, hoursMs: values.seriesHours },
  }
}

/** Opening a SQLite file migrates it, so --no-migrate is checked before the file is opened. */
async function requireSchema(database: string): Promise<void> {
  if (database.startsWith('memory:')) return
  const { openMigrator } = await import('../../storage/index.ts')
  await using migrator = await openMigrator(database)
  const { current, latest, isBeforeBaseline } = await migrator.status()
  // `open` has its own messages for newer schemas and those before the baseline.
  if (current >= latest || isBeforeBaseline) return
  const name = nameOfDatabase(database)
  const advice = 'Run `signalbox migrate up`, or leave --no-migrate off.'
  if (current === 0) throw new SignalboxError('schema_missing', `${name} has no schema. ${advice}`)
  throw new SignalboxError('schema_outdated', `${name} has schema ${current} of ${latest}. ${advice}`)
}

/** Converts the settings into the options of the server. */
function serverOptions(values: Config): Omit<ServerOptions, 'box'> {
  return {
    host: values.host,
    port: values.port,
    allowedHosts: values.allowedHosts,
    trustedProxies: values.trustedProxies,
    graceMs: values.grace,
    retentionMs: values.retention,
    redact: values.redact,
    maxConnections: values.maxConnections,
    maxConnectionsPerAddress: values.maxConnectionsPerAddress,
    maxRequestsPerPrincipal: values.maxRequestsPerPrincipal,
    maxStreamsPerPrincipal: values.maxStreamsPerPrincipal,
    maxFailuresPerAddress: values.maxFailuresPerAddress,
  }
}

/** Prints the address, the database, authentication, and a first request to try. */
async function announce(
  { json, database }: Config,
  url: string,
  { hasToken, hasSecretKey }: { readonly hasToken: boolean; readonly hasSecretKey: boolean },
  { tokens, warnings }: Backend,
  printer: Printer,
): Promise<void> {
  const name = nameOfDatabase(database)
  const isLocal = /^https?:\/\/(127\.|\[::1\])/.test(url)
  const needsToken = hasToken || !isLocal || (await tokens.hasLive())
  const channelSecrets = hasSecretKey ? 'sealed' : 'plain'
  if (json) {
    const where = { version, url, pid: process.pid, database: name }
    printer.json({ event: 'listening', ...where, needsToken, channelSecrets, warnings })
    return
  }
  printer.line(`Signalbox ${version} is listening on ${url} (Ctrl+C stops it)`)
  printer.line(`Database: ${name}`)
  printer.line(
    needsToken
      ? 'Authentication: on (`signalbox token create` makes tokens)'
      : 'Authentication: off (only this machine can reach the server)',
  )
  printer.line(
    hasSecretKey
      ? 'Channel secrets: sealed in the database'
      : 'Channel secrets: plain text in the database (SIGNALBOX_SECRET_KEY is not set)',
  )
  for (const warning of warnings) printer.line(`Warning: ${warning}`)
  printer.line(`Try: curl ${needsToken ? '-H "authorization: Bearer $TOKEN" ' : ''}${url}/v1/queues`)
}

/** `signalbox config print`: prints the settings of `serve` and their sources. Opens no store. */
export function configCommand({ printer }: CommandContext): Command {
  const print = addSettingFlags(new CliCommand('print'))
    .description('print the settings of serve, and where each value comes from')
    .exampleLines('signalbox config print', 'SIGNALBOX_PORT=8080 signalbox config print --json')
    .action(() => {
      const config = resolveConfig(configSources(print))
      printConfig(config, printer)
    })
  return new CliCommand('config')
    .examples('config print', 'config print --port 8080 --json')
    .addCommand(print)
}

function printConfig({ values, sources, file }: ResolvedConfig, printer: Printer): void {
  const shown = settingNames.map((name) => {
    const kind = settings[name].kind as Kind<unknown>
    return { name, value: kind.show(values[name]), source: sources[name] }
  })
  if (values.json) {
    const lines = shown.map(({ name, value, source }) => [name, { value, source }] as const)
    printer.json({ file: file ?? null, settings: Object.fromEntries(lines) })
    return
  }
  const rows = shown.map(({ name, value, source }) => [name, textOf(name, value), source])
  printTable(printer, ['SETTING', 'VALUE', 'SOURCE'], rows)
}

function textOf(name: SettingName, value: ReturnType<Kind<unknown>['show']>): string {
  const isMissing = value === null || (Array.isArray(value) && value.length === 0)
  if (isMissing) return `(${settings[name].none ?? 'not set'})`
  return Array.isArray(value) ? value.join(', ') : String(value)
}
