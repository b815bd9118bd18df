import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Command } from 'commander'
import { invalidArgument } from '../../core/errors.ts'
import { spanOf } from '../config/value-kinds.ts'
import type { Printer } from '../print.ts'
import { listenForStop } from '../signals.ts'
import type { CommandContext } from '../verbs.ts'
import { CliCommand } from './cli-command.ts'

interface DemoFlags {
  readonly port: string
  readonly database?: string
  readonly for?: string
  readonly json?: boolean
}

/** If the demo has not stopped after this time, the process exits. */
const forceAfterMs = 20_000

/** `signalbox demo`: runs a server with a small fleet that fills every view of its dashboard. */
export function demoCommand({ printer, prepareServe }: CommandContext): Command {
  return new CliCommand('demo')
    .option('--port <number>', 'the port to listen on; 0 takes any', '7420')
    .option('--database <url>', 'the database (default: a SQLite file that is removed at the end)')
    .option('--for <span>', 'stop after this time, such as 10m')
    .option('--json', 'print the address and the result as lines of JSON')
    .note('Only this machine can reach it. Ctrl+C ends it and removes its files.')
    .examples('demo', 'demo --port 8080 --for 10m')
    .action(async (flags: DemoFlags) => {
      if (!/^\d{1,5}$/.test(flags.port) || Number(flags.port) > 65_535)
        throw invalidArgument('--port must be a number from 0 to 65535.')
      const spanMs = spanOf('--for', flags.for, { min: 1, max: 2_147_483_647 })
      await prepareServe?.()
      await runDemo(flags, spanMs, printer)
    })
}

async function runDemo(
  { port, database, json }: DemoFlags,
  spanMs: number | undefined,
  printer: Printer,
): Promise<void> {
  const stop = listenForStop(forceAfterMs, (why) => {
    printer.problem(`${why}; the demo was cut off.`)
    process.exit(1)
  })
  const folder = database === undefined ? mkdtempSync(join(tmpdir(), 'signalbox-demo-')) : undefined
  try {
    const { open } = await import('../../index.ts')
    const { createServer } = await import('../../http/server/index.ts')
    const { startDemo } = await import('../../demo/index.ts')
    await using box = await open(database ?? `sqlite:${join(folder!, 'demo.db')}`, {
      migrate: true,
      // The messages of its crawlers go to a stand-in on this machine.
      allowPrivate: ['127.0.0.0/8'],
      // It runs for hours.
      retentionMs: '30m',
    })
    await using server = createServer({ box, port: Number(port) })
    const { url } = await server.listen()
    await using demo = startDemo({
      box,
      url,
      onFault: (who, error) =>
        printer.problem(`${who}: ${error instanceof Error ? error.message : String(error)}`),
    })
    if (json) printer.json({ event: 'playing', url })
    else {
      printer.line(`The demo plays at ${url} (Ctrl+C ends it)`)
      printer.line(
        'Mail with limits by tenant, images with progress, invoices that fail, a flow of jobs; ten machines that pull images;',
      )
      printer.line(
        'crawlers whose changes are notified once; nodes that translate, join and die. Open it in a browser.',
      )
    }
    const timer = Promise.withResolvers<void>()
    const timeout = spanMs === undefined ? undefined : setTimeout(timer.resolve, spanMs)
    await Promise.race([stop.asked, timer.promise])
    clearTimeout(timeout)
    const { faultCount } = demo
    await demo.stop()
    if (json) printer.json({ event: 'ended', faultCount })
  } finally {
    if (folder !== undefined) rmSync(folder, { recursive: true, force: true })
  }
}
