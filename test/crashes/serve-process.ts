/**
 * `signalbox serve` as a process on one port, made to be killed and started again.
 */
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Program, startProgram } from '../support/services/program.ts'

export interface ServeProcess extends AsyncDisposable {
  /** Stays the same over restarts. */
  readonly url: string
  /** kill -9. */
  kill(): Promise<void>
  /** Starts it again, and waits until it listens. */
  restart(): Promise<void>
  /** SIGTERM, as a deploy does it; throws when it does not end well. */
  stop(): Promise<void>
}

const script = join(import.meta.dirname, '..', '..', 'src', 'cli', 'main.ts')
const startMs = 30_000

export async function startServe(database: string, args: readonly string[] = []): Promise<ServeProcess> {
  let { program, url } = await listening(database, '0', args)
  const { port } = new URL(url)

  async function kill(): Promise<void> {
    if (program.ended === undefined) process.kill(program.pid, 'SIGKILL')
    await program.end
  }

  return {
    url,
    kill,
    async restart() {
      ;({ program, url } = await listening(database, port, args))
    },
    async stop() {
      process.kill(program.pid, 'SIGTERM')
      await program.end
      if (program.ended !== 'code 0')
        throw new Error(`serve was to stop and ended with ${program.ended}: ${program.tail()}`)
    },
    [Symbol.asyncDispose]: () => program[Symbol.asyncDispose](),
  }
}

async function listening(
  database: string,
  port: string,
  args: readonly string[],
): Promise<{ readonly program: Program; readonly url: string }> {
  const flags = ['--json', '--log-level=error', `--port=${port}`, `--database=${database}`, ...args]
  for (const deadline = Date.now() + startMs; ; ) {
    const program = await startProgram(process.execPath, [script, 'serve', ...flags])
    while (program.ended === undefined && Date.now() < deadline) {
      const [, url] = /"url":"([^"]+)"/.exec(program.tail()) ?? []
      if (url !== undefined) return { program, url }
      await sleep(20)
    }
    await program[Symbol.asyncDispose]()
    // Between two servers the system may have lent the port to a connection for a moment.
    if (!program.tail().includes('already in use') || Date.now() > deadline)
      throw new Error(`serve did not listen: ${program.ended}: ${program.tail()}`)
    await sleep(100)
  }
}
