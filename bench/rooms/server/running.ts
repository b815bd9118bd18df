/** Starts a server in its own process and speaks to it. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { childFlags } from '../../measure.ts'
import type { ServerOrder } from './serverprocess.ts'

export interface Running extends AsyncDisposable {
  readonly port: number
  /** Its resident set in bytes, after a collection. */
  memory(): Promise<number>
}

export async function startServer(order: ServerOrder): Promise<Running> {
  const child = fork(fileURLToPath(new URL('serverprocess.ts', import.meta.url)), [JSON.stringify(order)], {
    execArgv: [...childFlags],
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
  const { port } = await answerOf<{ port: number }>(child)
  return {
    port,
    async memory() {
      const answer = answerOf<{ rss: number }>(child)
      child.send('memory')
      return (await answer).rss
    },
    async [Symbol.asyncDispose]() {
      // It has nothing to save that is looked at again.
      child.kill('SIGKILL')
      if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
    },
  }
}

async function answerOf<Answer>(child: ChildProcess): Promise<Answer> {
  const [told] = await Promise.race([
    once(child, 'message'),
    once(child, 'exit').then(([code]) => {
      throw new Error(`the server's process ended with ${code}`)
    }),
  ])
  return told as Answer
}
