import { Command, InvalidArgumentError, Option } from 'commander'
import { version } from '../../core/version.ts'
import type { Server } from '../../server/index.ts'
import type { Printer } from '../print.ts'

interface ServeFlags {
  readonly host: string
  readonly port: number
  readonly json?: boolean
}

/** `close` is bounded by its grace; what still hangs this long after the signal is ended by force. */
const forceAfterMs = 15_000

/** `signalbox serve`: runs the server until it is told to stop. */
export function serveCommand(printer: Printer): Command {
  return new Command('serve')
    .description('run the server until it gets SIGINT (Ctrl+C) or SIGTERM')
    .addOption(
      new Option('--host <address>', 'loopback address to listen on')
        .env('SIGNALBOX_HOST')
        .default('127.0.0.1')
        .argParser(parseHost),
    )
    .addOption(
      new Option('--port <number>', 'port to listen on, 0 for any free one')
        .env('SIGNALBOX_PORT')
        .default(7420)
        .argParser(parsePort),
    )
    .option('--json', 'print one line of JSON when listening')
    .helpOption('-h, --help', 'print this help')
    .addHelpText(
      'after',
      '\nExamples:\n  signalbox serve --port 8080\n  SIGNALBOX_PORT=8080 signalbox serve --json\n  curl http://127.0.0.1:7420/livez',
    )
    .action((flags: ServeFlags) => serve(flags, printer))
}

async function serve({ host, port, json }: ServeFlags, printer: Printer): Promise<void> {
  const onError = (error: unknown) =>
    printer.problem(error instanceof Error ? (error.stack ?? '') : String(error))
  // Imported here, so that other commands and the help do not load an HTTP server first.
  const { createServer } = await import('../../server/index.ts')
  const server = createServer({ host, port, onError })
  // Listened to before the port is open, so that a signal in between is not lost.
  const told = nextSignal()
  try {
    const { url } = await server.listen()
    if (json) printer.json({ event: 'listening', version, url, pid: process.pid })
    else printer.line(`Signalbox ${version} is listening on ${url} (Ctrl+C stops it)`)
    await told
  } finally {
    await closeOrForce(server, printer)
  }
}

function nextSignal(): Promise<void> {
  return new Promise((resolve) => {
    // `once`, but for both: the second signal of either kind is for `closeOrForce`.
    const stop = () => {
      process.off('SIGINT', stop).off('SIGTERM', stop)
      resolve()
    }
    process.on('SIGINT', stop).on('SIGTERM', stop)
  })
}

async function closeOrForce(server: Server, printer: Printer): Promise<void> {
  const force = (why: string) => {
    printer.problem(`${why}; requests that had not ended were cut off.`)
    process.exit(1)
  }
  const again = () => force('A second signal came')
  process.on('SIGINT', again).on('SIGTERM', again)
  const timer = setTimeout(() => force('Closing took too long'), forceAfterMs)
  // A timer must not keep a process that has nothing else to do, but it outlives this function on purpose: whatever
  // still holds the process after `close` is ended by it.
  timer.unref()
  await server.close()
}

function parsePort(value: string): number {
  if (/^\d{1,5}$/.test(value) && Number(value) <= 65_535) return Number(value)
  throw new InvalidArgumentError('It must be a whole number from 0 to 65535.')
}

function parseHost(value: string): string {
  if (value !== '') return value
  throw new InvalidArgumentError('It must be an address, such as 127.0.0.1.')
}
