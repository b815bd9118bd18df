import { createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { within } from '../deadline.ts'
import type { Program } from './program.ts'

const readyMs = 30_000
const askMs = 10_000
const tries = 3

/** Asks the system for a port of 127.0.0.1 that is free now; it may be taken again before a server has it. */
export async function findFreePort(): Promise<number> {
  const server = createServer()
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject).listen(0, '127.0.0.1', resolve)
  })
  const address = server.address()
  await new Promise((resolve) => server.close(resolve))
  if (address === null || typeof address === 'string') throw new Error('a TCP server has no port')
  return address.port
}

/**
 * Starts a server on a free port and waits until `ask` gets an answer. `ask` checks by the data folder that the answer
 * is from our server, because another run's server may take the port before ours listens. Then, and whenever the server
 * ends at once, another port is tried.
 */
export async function startOnFreePort<Answer>(
  start: (port: number) => Promise<Program>,
  ask: (port: number) => Promise<Answer>,
): Promise<{ program: Program; port: number; answer: Answer }> {
  const failures: string[] = []
  for (let attempt = 0; attempt < tries; attempt++) {
    const port = await findFreePort()
    const program = await start(port)
    try {
      return { program, port, answer: await untilReady(program, () => ask(port)) }
    } catch (error) {
      await program[Symbol.asyncDispose]()
      failures.push(`${error}`)
    }
  }
  throw new Error(failures.join('\n'))
}

/** Asks until there is an answer. Throws with the server's output when it ended or took too long. */
export async function untilReady<Answer>(program: Program, ask: () => Promise<Answer>): Promise<Answer> {
  const deadline = Date.now() + readyMs
  let refusal: unknown
  while (program.ended === undefined && Date.now() < deadline) {
    try {
      return await within(askMs, 'the answer', ask())
    } catch (error) {
      refusal = error
      await sleep(25)
    }
  }
  const what = program.ended === undefined ? `did not answer in ${readyMs} ms` : `ended with ${program.ended}`
  throw new Error(`the server ${what} (${refusal}); it said: ${program.tail().trim()}`)
}
