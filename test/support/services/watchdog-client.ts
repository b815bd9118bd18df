import { type ChildProcess, spawn } from 'node:child_process'
import type { Socket } from 'node:net'
import { join } from 'node:path'

/**
 * The connection to the watchdog (watchdog.ts), one for each process that starts servers. A message is a plain write to
 * a pipe, in the same turn as the start, so a crash at any moment leaves no child unknown.
 */
let watchdog: ChildProcess | undefined

function send(...words: readonly (string | number)[]): void {
  watchdog ??= startWatchdog()
  watchdog.stdin?.write(`${words.join('\t')}\n`)
}

function startWatchdog(): ChildProcess {
  // Detached: a Ctrl-C in the terminal reaches the foreground group, and the watchdog must survive to clean up.
  const child = spawn(process.execPath, [join(import.meta.dirname, 'watchdog.ts')], {
    detached: true,
    stdio: ['pipe', 'ignore', 'inherit'],
    env: {},
    cwd: '/',
  })
  // The watchdog waits for us, never we for it.
  child.unref()
  const pipe = child.stdin as Socket
  pipe.unref()
  pipe.on('error', (error) => console.error(`[services] the watchdog is gone: ${error.message}`))
  return child
}

/** Puts a process group under the watchdog; `endSignal` asks it to end, before SIGKILL. */
export function keepProcess(pid: number, endSignal: NodeJS.Signals): void {
  send('process', pid, endSignal)
}

/** Removes an ended process from the watchdog. */
export function forgetProcess(pid: number): void {
  send('gone', pid)
}

/** Puts a folder under the watchdog. */
export function keepFolder(path: string): void {
  send('folder', path)
}

/** Removes a deleted folder from the watchdog. */
export function forgetFolder(path: string): void {
  send('removed', path)
}
