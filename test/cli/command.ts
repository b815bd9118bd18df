import { type ChildProcessByStdio, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { createPrinter } from '../../src/cli/print.ts'
import { run as runCommand } from '../../src/cli/run.ts'
import { within } from '../support/deadline.ts'

const main = fileURLToPath(new URL('../../src/cli/main.ts', import.meta.url))
const startMs = 20_000

/** A working directory that goes with its test; nothing of the machine's own configuration is in it. */
export interface Workplace extends Disposable {
  readonly folder: string
  /** Runs a command line to its end, in a process. */
  run(args: readonly string[], env?: NodeJS.ProcessEnv): Promise<Ended>
  /**
   * The same in this process: starting Node takes ten times as long as most commands do. For commands that start no
   * process, take no signals and draw on no terminal.
   */
  call(args: readonly string[], env?: NodeJS.ProcessEnv): Promise<Ended>
  /** Starts `serve` on a free port and waits until it listens; it never outlives the test. */
  serve(args?: readonly string[], env?: NodeJS.ProcessEnv): Promise<Serving>
}

export interface Ended {
  readonly code: number | null
  readonly out: string
  readonly err: string
}

export interface Serving extends AsyncDisposable {
  readonly pid: number
  readonly url: string
  /** What it has printed so far. */
  out(): string
  err(): string
  kill(signal: NodeJS.Signals): void
  readonly ended: Promise<Ended>
}

type Child = ChildProcessByStdio<null, Readable, Readable>

export function createWorkplace(): Workplace {
  const folder = mkdtempSync(join(tmpdir(), 'signalbox-cli-'))
  return {
    folder,
    run: (args, env) => watch(start(folder, args, env)).ended,
    call: (args, env) => inTurn(() => callHere(folder, args, env)),
    async serve(args = [], env = {}) {
      const flags =
        args.some((arg) => arg.startsWith('--port')) || 'SIGNALBOX_PORT' in env ? [] : ['--port=0']
      const child = start(folder, ['serve', ...flags, ...args], env)
      const { out, err, ended } = watch(child)
      const serving = {
        pid: child.pid!,
        out,
        err,
        ended,
        kill: (signal: NodeJS.Signals) => void child.kill(signal),
        async [Symbol.asyncDispose]() {
          child.kill('SIGKILL')
          await ended
        },
      }
      const url = await within(
        startMs,
        'serve',
        Promise.race([urlOf(child, out), ended.then(() => undefined)]),
      )
      if (url === undefined) throw new Error(`serve did not listen: ${err()}${out()}`)
      return { ...serving, url }
    },
    [Symbol.dispose]: () => rmSync(folder, { recursive: true, force: true, maxRetries: 5 }),
  }
}

function start(cwd: string, args: readonly string[], env?: NodeJS.ProcessEnv): Child {
  return spawn(process.execPath, [main, ...args], {
    cwd,
    env: cleanEnvironment(env),
    stdio: ['ignore', 'pipe', 'pipe'],
  })
}

/** The environment of a command: nothing of this machine's but what Node needs. */
function cleanEnvironment(env: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv {
  return { PATH: process.env.PATH, NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE, ...env }
}

let last: Promise<unknown> = Promise.resolve()
/** One after the other: the environment and the working directory belong to the whole process. */
function inTurn<Value>(work: () => Promise<Value>): Promise<Value> {
  const answer = last.then(work)
  last = answer.catch(() => undefined)
  return answer
}

async function callHere(cwd: string, args: readonly string[], env?: NodeJS.ProcessEnv): Promise<Ended> {
  const said = { out: '', err: '' }
  const stdout = { write: (text: string) => (said.out += text) }
  const stderr = { write: (text: string) => (said.err += text) }
  const home = process.cwd()
  const own = process.env
  process.env = cleanEnvironment(env)
  process.chdir(cwd)
  try {
    const code = await runCommand(args, createPrinter(stdout, stderr))
    return { code, ...said }
  } finally {
    process.chdir(home)
    process.env = own
  }
}

/** Reads from the start: Node drops unread output when a child exits. */
function watch(child: Child): { out(): string; err(): string; ended: Promise<Ended> } {
  const said = { out: '', err: '' }
  child.stdout.setEncoding('utf8').on('data', (text: string) => (said.out += text))
  child.stderr.setEncoding('utf8').on('data', (text: string) => (said.err += text))
  return {
    out: () => said.out,
    err: () => said.err,
    ended: once(child, 'close').then(([code]) => ({ code: code as number | null, ...said })),
  }
}

/** It prints everything at once, so the last line's end is the end of what it says. */
async function urlOf(child: Child, out: () => string): Promise<string | undefined> {
  const listening = /listening.*?(https?:\/\/[^\s"]+)[\s\S]*\n$/
  while (!listening.test(out()) || !/"pid"|Try: /.test(out())) await once(child.stdout, 'data')
  return listening.exec(out())![1]
}
