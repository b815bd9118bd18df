/**
 * Processes of one campaign. Each runs a script until it is killed with -9 or asked to stop; any other end is a failure.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { type Program, startProgram } from '../support/services/program.ts'

export interface Crew extends AsyncDisposable {
  /** Processes that ended unexpectedly, and their last output. */
  readonly accidents: readonly string[]
  /** Starts a script with these options and waits until it says that it is ready. */
  start(script: string, options: object): Promise<Program>
  /** kill -9. */
  kill(program: Program): Promise<void>
  /** SIGSTOP, and SIGCONT after so long. */
  pause(program: Program, ms: number): Promise<void>
  /** SIGTERM, as a deploy does it; a process that does not leave cleanly in time counts as an accident. */
  stop(program: Program): Promise<void>
}

const startMs = 30_000
const leaveMs = 20_000

export function createCrew(): Crew {
  const members = new Set<Program>()
  const accidents: string[] = []

  function fell(program: Program): void {
    if (members.delete(program)) accidents.push(`a process ended with ${program.ended}: ${program.tail()}`)
  }

  async function kill(program: Program): Promise<void> {
    members.delete(program)
    await program[Symbol.asyncDispose]()
  }

  return {
    accidents,
    kill,
    async start(script, options) {
      const flags = ['--conditions=source', '--disable-warning=ExperimentalWarning']
      const program = await startProgram(process.execPath, [...flags, script, JSON.stringify(options)])
      members.add(program)
      void program.end.then(() => fell(program))
      for (const deadline = Date.now() + startMs; !program.tail().includes('ready'); await sleep(10))
        if (program.ended !== undefined || Date.now() > deadline)
          throw new Error(`a process did not start: ${program.ended}: ${program.tail()}`)
      return program
    },
    async pause(program, ms) {
      if (program.ended === undefined) process.kill(program.pid, 'SIGSTOP')
      await sleep(ms)
      if (program.ended === undefined) process.kill(program.pid, 'SIGCONT')
    },
    async stop(program) {
      if (!members.delete(program)) return
      process.kill(program.pid, 'SIGTERM')
      await Promise.race([program.end, sleep(leaveMs, undefined, { ref: false })])
      if (program.ended !== 'code 0')
        accidents.push(`a process was to leave and ended with ${program.ended}: ${program.tail()}`)
      await program[Symbol.asyncDispose]()
    },
    async [Symbol.asyncDispose]() {
      await Promise.all([...members].map(kill))
    },
  }
}
