import { type ChildProcess, spawn } from 'node:child_process'
import { constants } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'

/**
 * The end of a command that ran under a lock. Signals to this process are forwarded to the command. When the lock is lost,
 * the command gets SIGTERM, and SIGKILL five seconds later. So do its child processes, if the command leads a process
 * group. At a terminal it does not lead one, because then it could not read from the terminal.
 */
export interface ChildEnd {
  /** As in a shell: 128 plus the number of the signal that ended it, 127 not found, 126 not executable. */
  readonly exitCode: number
  readonly isLost: boolean
  /** Why it could not start. */
  readonly problem?: string
}

const killAfterMs = 5_000
const forwardedSignals = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const

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
  const stopForwarding = forwardSignals(signal)
  const end = () => {
    signal('SIGTERM')
    killing = setTimeout(() => signal('SIGKILL'), killAfterMs)
  }
  const finish = (exitCode: number, problem?: string) => {
    stopForwarding()
    clearTimeout(killing)
    lost.removeEventListener('abort', end)
    resolve({ exitCode, isLost: lost.aborted, ...(problem === undefined ? {} : { problem }) })
  }
  child.once('error', (error: NodeJS.ErrnoException) => {
    finish(error.code === 'ENOENT' ? 127 : 126, `${command} could not be run: ${error.message}.`)
  })
  child.once('exit', async (code, endedBy) => {
    // Its child processes may end slowly after SIGTERM. This waits for them, and SIGKILL ends them.
    if (lost.aborted && leadsGroup) await groupEnded(child.pid!)
    finish(code ?? 128 + numberOf(endedBy))
  })
  if (lost.aborted) end()
  else lost.addEventListener('abort', end)
  return promise
}

/** Aborts the wait for a lock at the first signal. The reason has the exit code. */
export function watchSignals(): { readonly signal: AbortSignal; readonly stop: () => void } {
  const controller = new AbortController()
  const handlers = forwardedSignals.map((name) => {
    const interrupt = () => controller.abort(new Interrupted(128 + numberOf(name)))
    process.on(name, interrupt)
    return () => process.off(name, interrupt)
  })
  return { signal: controller.signal, stop: () => handlers.forEach((off) => void off()) }
}

/** A signal ended the wait. */
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
    // All processes of the group have ended.
  }
}

/** Resolves when the group has no process left, at the latest a second after SIGKILL. */
async function groupEnded(leaderPid: number): Promise<void> {
  const deadline = performance.now() + killAfterMs + 1_000
  try {
    for (; performance.now() < deadline; await sleep(20)) process.kill(-leaderPid, 0)
  } catch {
    // The group has no process left.
  }
}

function forwardSignals(signal: (name: NodeJS.Signals) => void): () => void {
  const handlers = forwardedSignals.map((name) => {
    const forward = () => {
      // A terminal sends these two signals to all foreground processes itself.
      const isFromTerminal = process.stdin.isTTY && (name === 'SIGINT' || name === 'SIGQUIT')
      if (!isFromTerminal) signal(name)
    }
    process.on(name, forward)
    return () => process.off(name, forward)
  })
  return () => {
    for (const off of handlers) off()
  }
}

function numberOf(signal: NodeJS.Signals | null): number {
  return signal === null ? 0 : constants.signals[signal]
}
