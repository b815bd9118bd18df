/**
 * Worker processes, and the faults that hit them. A process that ends unasked is a failure: no handler and no database
 * error may end a worker.
 */
import { join } from 'node:path'
import { type Program, startProgram } from '../support/services/program.ts'
import type { WorkerProcessOptions } from './jobs/worker-process.ts'

export interface Member {
  readonly name: string
  readonly program: Program
}

export interface Fleet extends AsyncDisposable {
  readonly members: readonly Member[]
  /** How many processes were started. */
  readonly startCount: number
  start(options?: Partial<WorkerProcessOptions>): Promise<Member>
  /** kill -9, and a new one in its place, under the name and options of the old. */
  killAndReplace(member: Member): Promise<Member>
  kill(member: Member): Promise<void>
  /**
   * SIGTERM, as a deploy does it, and a new process in its place; one that does not leave in time counts as an
   * accident.
   */
  retireAndReplace(member: Member): Promise<Member>
  signal(member: Member, signal: 'SIGSTOP' | 'SIGCONT'): void
  /** Processes that ended unexpectedly, and their last output. */
  readonly accidents: readonly string[]
}

export interface FleetOptions extends Omit<WorkerProcessOptions, 'name' | 'workerId'> {
  /** Ends that a job may cause for its process, such as `code 3`; such a process is replaced. */
  readonly expectedEnds?: readonly string[]
  /** What they find in their environment besides ours. */
  readonly env?: Readonly<Record<string, string>>
}

/** A worker gives its handlers two seconds and its last writes five. */
const retireMs = 15_000
const script = join(import.meta.dirname, 'jobs', 'worker-process.ts')

export function createFleet({ expectedEnds = [], env, ...shared }: FleetOptions): Fleet {
  const members = new Map<Member, WorkerProcessOptions>()
  const accidents: string[] = []
  let startCount = 0
  let isOver = false

  async function start(options: Partial<WorkerProcessOptions> = {}): Promise<Member> {
    const name = options.name ?? `w${startCount}`
    const whole: WorkerProcessOptions = { ...shared, workerId: name, ...options, name }
    startCount++
    const flags = ['--conditions=source', '--disable-warning=ExperimentalWarning']
    const program = await startProgram(process.execPath, [...flags, script, JSON.stringify(whole)], { env })
    const member = { name, program }
    members.set(member, whole)
    void program.end.then(() => fell(member))
    return member
  }

  function fell(member: Member): void {
    const options = members.get(member)
    if (options === undefined || isOver) return
    members.delete(member)
    if (expectedEnds.includes(member.program.ended!)) void start(options)
    else accidents.push(`worker ${member.name} ended with ${member.program.ended}: ${member.program.tail()}`)
  }

  async function kill(member: Member): Promise<void> {
    members.delete(member)
    if (member.program.ended === undefined) process.kill(member.program.pid, 'SIGKILL')
    await member.program.end
  }

  return {
    get members() {
      return [...members.keys()]
    },
    get startCount() {
      return startCount
    },
    accidents,
    start,
    kill,
    async killAndReplace(member) {
      const options = members.get(member)
      await kill(member)
      return start(options)
    },
    async retireAndReplace(member) {
      const options = members.get(member)
      members.delete(member)
      const { program } = member
      const kill = setTimeout(() => process.kill(program.pid, 'SIGKILL'), retireMs)
      if (program.ended === undefined) process.kill(program.pid, 'SIGTERM')
      await program.end
      clearTimeout(kill)
      // One that was still starting has no ear for it yet.
      if (program.ended !== 'code 0' && program.ended !== 'signal SIGTERM')
        accidents.push(
          `worker ${member.name} was to leave and ended with ${program.ended}: ${program.tail()}`,
        )
      return start(options)
    },
    signal(member, signal) {
      if (member.program.ended === undefined) process.kill(member.program.pid, signal)
    },
    async [Symbol.asyncDispose]() {
      isOver = true
      await Promise.all([...members.keys()].map(kill))
    },
  }
}
