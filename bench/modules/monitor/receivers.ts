/** Receivers of webhooks in a separate process, and the wait for what they took. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { within } from '../../../test/support/deadline.ts'
import type { ReceiversOrder, ReceiversWord } from './receivers-process.ts'

/** Far more than a start, or all the messages, take on a slow machine. */
const waitMs = 120_000

export interface Receivers extends AsyncDisposable {
  /** The dead one, where there is one, is the first. */
  readonly urls: readonly string[]
  /** When every living one has all its messages. */
  readonly full: Promise<void>
}

export async function startReceivers(order: ReceiversOrder): Promise<Receivers> {
  const child = fork(
    fileURLToPath(new URL('receivers-process.ts', import.meta.url)),
    [JSON.stringify(order)],
    {
      stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
    },
  )
  const end = async () => {
    child.kill('SIGKILL')
    if (child.exitCode === null && child.signalCode === null)
      await within(10_000, 'the end of the receivers', once(child, 'exit'))
  }
  try {
    const { ports } = await wordOf(child)
    const full = wordOf(child).then(() => undefined)
    // A caller that fails before it waits for this reports its own failure.
    full.catch(() => undefined)
    return {
      urls: ports!.map((port) => `http://127.0.0.1:${port}/hook`),
      full,
      [Symbol.asyncDispose]: end,
    }
  } catch (error) {
    await end()
    throw error
  }
}

async function wordOf(child: ChildProcess): Promise<ReceiversWord> {
  const over = new AbortController()
  const { signal } = over
  try {
    const [word] = await within(
      waitMs,
      'the word of the receivers',
      Promise.race([
        once(child, 'message', { signal }),
        once(child, 'exit', { signal }).then(([code]) => {
          throw new Error(`the receivers ended with ${code}`)
        }),
      ]),
    )
    return word as ReceiversWord
  } finally {
    over.abort()
  }
}
