import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { within } from '../deadline.ts'
import type { Account } from './account.ts'
import { forgetProcess, keepProcess } from './watchdog-client.ts'

const tailChars = 4_000
const graceMs = 5_000
/** The time limit for a program that ends on its own. */
const runMs = 120_000

/** The start options of a program. */
export interface ProgramOptions {
  /** The account that runs it. @default this process's user */
  readonly account?: Account | undefined
  /** The name it finds in argv[0]. @default its path */
  readonly argv0?: string | undefined
  /** Additional environment variables. */
  readonly env?: Readonly<Record<string, string>> | undefined
  /** The signal that asks it to end, before SIGKILL. @default 'SIGKILL' */
  readonly endSignal?: NodeJS.Signals | undefined
}

/** A child process that ends when it is disposed of, or with this process. */
export interface Program {
  readonly pid: number
  /** Set once it has ended: `code 1`, `signal SIGKILL`. */
  readonly ended: string | undefined
  /** Settles when it has ended. */
  readonly end: Promise<void>
  /** The last part of its output. */
  tail(): string
  [Symbol.asyncDispose](): Promise<void>
}

/** Starts a program in a new process group, so that its children end with it. */
export async function startProgram(
  command: string,
  args: readonly string[],
  { account, argv0, env, endSignal = 'SIGKILL' }: ProgramOptions = {},
): Promise<Program> {
  const child = spawn(command, args, {
    ...account,
    ...(argv0 === undefined ? {} : { argv0 }),
    // We show a server's messages when it fails, so they are in English; and a lent account may not enter our working
    // directory.
    env: { ...process.env, LC_ALL: 'C', ...env },
    cwd: '/',
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  const { pid } = child
  if (pid === undefined) throw (await once(child, 'error'))[0]
  keepProcess(pid, endSignal)

  let output = ''
  let ended: string | undefined
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      output = (output + text).slice(-tailChars)
    })
  }
  const exit = once(child, 'exit').then(([code, signal]) => {
    forgetProcess(pid)
    ended = signal === null ? `code ${code}` : `signal ${signal}`
  })
  const closed = once(child, 'close')
  const end = exit.then(async () => void (await closed))

  return {
    pid,
    end,
    get ended() {
      return ended
    },
    tail: () => output,
    async [Symbol.asyncDispose]() {
      if (ended !== undefined) return
      const kill = setTimeout(() => signalGroup(pid, 'SIGKILL'), graceMs)
      signalGroup(pid, endSignal)
      await exit
      clearTimeout(kill)
    },
  }
}

function signalGroup(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(-pid, signal)
  } catch {
    // It ended between our check and our signal, which is the goal anyway.
  }
}

/** Runs a program to its end. Throws with its output unless it succeeded. */
export async function runProgram(
  command: string,
  args: readonly string[],
  options: ProgramOptions = {},
): Promise<void> {
  await using program = await startProgram(command, args, options)
  await within(runMs, command, program.end)
  if (program.ended !== 'code 0') {
    throw new Error(`${command} ended with ${program.ended}: ${program.tail().trim()}`)
  }
}
