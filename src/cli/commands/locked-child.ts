import { type ChildProcess, spawn } from 'node:child_process'
import { constants } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'

/**
 * A command that runs while a lock is held. Signals that we get are passed on to it; when the lock is lost it is asked
 * to end, and made to a while later: with all that it started, where it leads its own process group. At a terminal
 * it does not, or it could not read from there; what it started is then its own business, as with any shell.
 */
export interface ChildEnd {
  /** As a shell would say it: 128 and the signal's number where one ended it, 127 not found, 126 not runnable. */
  readonly exitCode: number
  readonly isLost: boolean
  /** Why it could not be run at all. */
  readonly problem?: string
}

const killAfterMs = 5_000
const passedOn = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const

export function runChild(
  command: string,
  args: readonly string[],
  { token, lost }: { readonly token?: number; readonly lost: AbortSignal },
): Promise<ChildEnd> {
  const { promise, resolve } = Promise.withResolvers<ChildEnd>()
  const env = { ...process.env, ...(token === undefined ? {} : { SIGNALBOX_LOCK_TOKEN: String(token) }) }
  const leadsGroup = !process.stdin.isTTY
  const child = spawn(command, args, { stdio: 'inherit', env, detached: leadsGroup })
  const signal = (name: NodeJS.Signals) => signalChild(child, leadsGroup, name)
  let killing: ReturnType<typeof setTimeout> | undefined
  const stopPassing = passSignalsOn(signal)
  const end = () => {
    signal('SIGTERM')
    killing = setTimeout(() => signal('SIGKILL'), killAfterMs)
  }
  const finish = (exitCode: number, problem?: string) => {
    stopPassing()
    clearTimeout(killing)
    lost.removeEventListener('abort', end)
    resolve({ exitCode, isLost: lost.aborted, ...(problem === undefined ? {} : { problem }) })
  }
  child.once('error', (error: NodeJS.ErrnoException) => {
    finish(error.code === 'ENOENT' ? 127 : 126, `${command} could not be run: ${error.message}.`)
  })
  child.once('exit', async (code, endedBy) => {
    // What it started may take its time over SIGTERM, as it may itself; SIGKILL comes while we wait for them.
    if (lost.aborted && leadsGroup) await groupEnded(child.pid!)
    finish(code ?? 128 + numberOf(endedBy))
  })
  if (lost.aborted) end()
  else lost.addEventListener('abort', end)
  return promise
}

/** What ends the wait for a lock: the first signal, by its exit code. */
export function heedSignals(): { readonly signal: AbortSignal; readonly stop: () => void } {
  const controller = new AbortController()
  const handlers = passedOn.map((name) => {
    const heed = () => controller.abort(new Interrupted(128 + numberOf(name)))
    process.on(name, heed)
    return () => process.off(name, heed)
  })
  return { signal: controller.signal, stop: () => handlers.forEach((off) => void off()) }
}

/** A signal came while we waited. */
export class Interrupted extends Error {
  readonly exitCode: number

  constructor(exitCode: number) {
    super('Interrupted by a signal.')
    this.exitCode = exitCode
  }
}

function signalChild(child: ChildProcess, leadsGroup: boolean, name: NodeJS.Signals): void {
  if (!leadsGroup || child.pid === undefined) {
    child.kill(name)
    return
  }
  try {
    process.kill(-child.pid, name)
  } catch {
    // All of them have ended meanwhile.
  }
}

/** Resolves when no process is left in the group, or shortly after SIGKILL at the latest. */
async function groupEnded(leaderPid: number): Promise<void> {
  const deadline = performance.now() + killAfterMs + 1_000
  try {
    for (; performance.now() < deadline; await sleep(20)) process.kill(-leaderPid, 0)
  } catch {
    // There is no such group any more.
  }
}

function passSignalsOn(signal: (name: NodeJS.Signals) => void): () => void {
  const handlers = passedOn.map((name) => {
    const pass = () => {
      // From a terminal, these two reach every process in front of it by themselves.
      const isFromTerminal = process.stdin.isTTY && (name === 'SIGINT' || name === 'SIGQUIT')
      if (!isFromTerminal) signal(name)
    }
    process.on(name, pass)
    return () => process.off(name, pass)
  })
  return () => {
    for (const off of handlers) off()
  }
}

function numberOf(signal: NodeJS.Signals | null): number {
  return signal === null ? 0 : constants.signals[signal]
}
