/**
 * The process that outlives a test run by a moment. Lines on stdin name the processes and folders of the run. When
 * stdin closes the run is over, however it ended (even by `kill -9`, which no handler inside the run survives): the
 * watchdog ends and removes everything still on its list, and exits.
 *
 *   process 4711 SIGQUIT   end this process group, first by that signal
 *   gone 4711              it ended; the system may reuse the number
 *   folder /tmp/…          remove this folder
 *   removed /tmp/…         it is removed already
 *
 * It runs as a separate script and imports nothing of ours.
 */
import { readFileSync, rmSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { setTimeout as sleep } from 'node:timers/promises'

const graceMs = 3_000
const processes = new Map<number, NodeJS.Signals>()
const folders = new Set<string>()

function obey(line: string): void {
  const [word, subject = '', signal = 'SIGKILL'] = line.split('\t')
  if (word === 'process') processes.set(Number(subject), signal as NodeJS.Signals)
  if (word === 'gone') processes.delete(Number(subject))
  if (word === 'folder') folders.add(subject)
  if (word === 'removed') folders.delete(subject)
}

/** Signals a whole group; false when it is empty. */
function signalGroup(pid: number, signal: NodeJS.Signals | 0): boolean {
  try {
    process.kill(-pid, signal)
    return true
  } catch {
    return false
  }
}

/** A dead process keeps its number until its new parent has looked, which in some containers takes a while. */
function isZombie(pid: number): boolean {
  try {
    return /\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'utf8'))
  } catch {
    return false
  }
}

async function endProcess(pid: number, signal: NodeJS.Signals): Promise<void> {
  const deadline = Date.now() + graceMs
  signalGroup(pid, signal)
  while (Date.now() < deadline && signalGroup(pid, 0) && !isZombie(pid)) await sleep(20)
  signalGroup(pid, 'SIGKILL')
}

async function cleanUp(): Promise<void> {
  await Promise.all(Array.from(processes, ([pid, signal]) => endProcess(pid, signal)))
  for (const folder of folders) {
    try {
      rmSync(folder, { recursive: true, force: true, maxRetries: 10, retryDelay: 50 })
    } catch (error) {
      console.error(`[services] could not remove ${folder}: ${error}`)
    }
  }
  process.exit(0)
}

// A tool that ends a whole session sends a signal first: the watchdog reacts as to a closed stdin.
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, () => void cleanUp())
createInterface({ input: process.stdin })
  .on('line', obey)
  .once('close', () => void cleanUp())
