/** Starts a server in its own process and speaks to it. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { within } from '../../../test/support/deadline.ts'
import { childFlags } from '../../measure.ts'
import type { ServerOrder } from './server-process.ts'

/** Far more than a start, or a collection with ten thousand streams open, takes on a slow machine. */
const answerMs = 60_000
const endMs = 10_000

export interface Running extends AsyncDisposable {
  readonly port: number
  readonly pid: number
  /** Its resident set in bytes, after a collection. */
  memory(): Promise<number>
  /** The CPU time that it has used, in milliseconds. */
  cpuMs(): Promise<number>
}

export async function startServer(order: ServerOrder): Promise<Running> {
  const child = fork(fileURLToPath(new URL('server-process.ts', import.meta.url)), [JSON.stringify(order)], {
    execArgv: [...childFlags],
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
  const end = async () => {
    // It has nothing to save that is looked at again.
    child.kill('SIGKILL')
    if (child.exitCode === null && child.signalCode === null)
      await within(endMs, 'the end of the server’s process', once(child, 'exit'))
  }
  const { port } = await answerOf<{ port: number }>(child).catch(async (error: unknown) => {
    await end()
    throw error
  })
  const ask = async (question: 'memory' | 'cpu') => {
    const answer = answerOf<{ rss: number; cpuMs: number }>(child)
    child.send(question)
    return answer
  }
  return {
    port,
    pid: child.pid!,
    memory: async () => (await ask('memory')).rss,
    cpuMs: async () => (await ask('cpu')).cpuMs,
    [Symbol.asyncDispose]: end,
  }
}

async function answerOf<Answer>(child: ChildProcess): Promise<Answer> {
  const over = new AbortController()
  const { signal } = over
  try {
    const [told] = await within(
      answerMs,
      'the answer of the server’s process',
      Promise.race([
        once(child, 'message', { signal }),
        once(child, 'exit', { signal }).then(([code]) => {
          throw new Error(`the server's process ended with ${code}`)
        }),
      ]),
    )
    return told as Answer
  } finally {
    // Neither of the two is listened for any longer.
    over.abort()
  }
}
