import { type ChildProcess, spawn } from 'node:child_process'
import { constants } from 'node:os'

/**
 * A command that runs while a lock is held. Signals that we get are passed on to it; when the lock is lost it is asked
 * to end, and made to a while later.
 */
export interface ChildEnd {
  /** As a shell would say it: 128 and the signal's number where one ended it, 127 not found, 126 not runnable. */
  readonly exitCode: number
  readonly isLost: boolean
}

const killAfterMs = 5_000
const passedOn = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT'] as const

export function runChild(
  command: string,
  args: readonly string[],
  { token, lost }: { readonly token: number; readonly lost: AbortSignal },
): Promise<ChildEnd> {
  const { promise, resolve } = Promise.withResolvers<ChildEnd>()
  const env = { ...process.env, SIGNALBOX_LOCK_TOKEN: String(token) }
  const child = spawn(command, args, { stdio: 'inherit', env })
  let killing: ReturnType<typeof setTimeout> | undefined
  const stopPassing = passSignalsOn(child)
  const end = () => {
    child.kill('SIGTERM')
    killing = setTimeout(() => child.kill('SIGKILL'), killAfterMs)
  }
  const finish = (exitCode: number) => {
    stopPassing()
    clearTimeout(killing)
    lost.removeEventListener('abort', end)
    resolve({ exitCode, isLost: lost.aborted })
  }
  child.once('error', (error: NodeJS.ErrnoException) => finish(error.code === 'ENOENT' ? 127 : 126))
  child.once('exit', (code, signal) => finish(code ?? 128 + numberOf(signal)))
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
    super('Interrupted while waiting for the lock.')
    this.exitCode = exitCode
  }
}

function passSignalsOn(child: ChildProcess): () => void {
  const handlers = passedOn.map((name) => {
    const pass = () => {
      // From a terminal, these two reach every process in front of it by themselves.
      const isFromTerminal = process.stdin.isTTY && (name === 'SIGINT' || name === 'SIGQUIT')
      if (!isFromTerminal) child.kill(name)
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
