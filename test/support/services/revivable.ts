import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Program } from './program.ts'
import { untilReady } from './ready.ts'

/** A server that can crash as by a power cut and restart on its old port and data. */
export interface Revivable extends AsyncDisposable {
  /** Kills it with -9, and all its forked processes. */
  crash(): Promise<void>
  /** Starts it again and waits until it answers, which is after its recovery. */
  restart(): Promise<void>
}

const restartMs = 30_000

export function createRevivable(
  first: Program,
  start: () => Promise<Program>,
  ask: () => Promise<unknown>,
): Revivable {
  let program = first
  return {
    async crash() {
      // The process is stopped first, and observed as stopped, so that it forks no process before the kill. Postgres
      // puts each of its processes in a separate group; a surviving one would keep the data locked.
      signal(program.pid, 'SIGSTOP')
      for (const deadline = Date.now() + 1_000; statOf(program.pid)?.state !== 'T'; await sleep(1))
        if (Date.now() > deadline) break
      for (const pid of [program.pid, ...childrenOf(program.pid)]) signal(pid, 'SIGKILL')
      await program.end
    },
    async restart() {
      for (const deadline = Date.now() + restartMs; ; await sleep(100)) {
        program = await start()
        try {
          await untilReady(program, ask)
          return
        } catch (error) {
          await program[Symbol.asyncDispose]()
          // Its data may be locked for another moment by processes that are still ending.
          if (Date.now() > deadline) throw error
        }
      }
    },
    [Symbol.asyncDispose]: () => program[Symbol.asyncDispose](),
  }
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch {
    // It is gone already.
  }
}

/** By /proc; without it, forks must notice the death of their parent on their own. */
function childrenOf(parent: number): readonly number[] {
  let names: readonly string[] = []
  try {
    names = readdirSync('/proc')
  } catch {
    return []
  }
  return names.map(Number).filter((pid) => pid > 0 && statOf(pid)?.parent === parent)
}

function statOf(pid: number): { state: string; parent: number } | undefined {
  try {
    // The name is in brackets and may hold anything; state and parent are the fields after it.
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const [state = '', parent] = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
    return { state, parent: Number(parent) }
  } catch {
    return undefined
  }
}
