/**
 * A node that outlives its server: it goes to another one, says what it runs, and tells its results until they are
 * settled. It runs whatever it is given, so that the number of tasks it runs at a time shows whether a server gave it too many.
 */
import { WebSocket } from 'ws'
import type { ServerFrame } from '../../../src/dispatch/index.ts'

type Assigned = Extract<ServerFrame, { readonly type: 'task.assign' }>

/** What a task of the race is told. */
export interface RacePayload {
  readonly holdMs: number
}

export interface RaceNodeOptions {
  readonly nodeId: string
  readonly slots: number
  readonly ports: readonly number[]
  readonly tally: RaceTally
}

/** What all nodes of a process have seen. */
export interface RaceTally {
  /** Tasks that came while all slots were in use. */
  overCommitted: number
  running: number
  welcomes: number
  /** Ends that a server says are in the store. */
  readonly settled: Set<string>
}

const load = { cpu: 0.5, gpu: null, memory: null }

export class RaceNode {
  readonly #options: RaceNodeOptions
  readonly #instanceId: string
  readonly #running = new Map<string, { readonly attempt: number; readonly timer: NodeJS.Timeout }>()
  /** Results that no server has settled yet. */
  readonly #ended = new Map<string, number>()
  #socket: WebSocket | undefined
  #beating: NodeJS.Timeout | undefined
  #assigned = 0

  constructor(options: RaceNodeOptions) {
    this.#options = options
    this.#instanceId = `${options.nodeId}-${process.pid}`
    this.#connect()
  }

  #connect(): void {
    const { ports, nodeId, slots } = this.#options
    const port = ports[Math.floor(Math.random() * ports.length)]!
    const socket = new WebSocket(`ws://127.0.0.1:${port}/v1/nodes/connect`, { perMessageDeflate: false })
    this.#socket = socket
    this.#assigned = 0
    socket.on('open', () =>
      this.#say({
        ...{ type: 'hello', nodeId, instanceId: this.#instanceId, protocol: 1 },
        ...{ services: [{ name: 'asr', slots }], running: this.#known() },
      }),
    )
    socket.on('message', (data: Buffer) => this.#hear(JSON.parse(data.toString()) as ServerFrame))
    // What follows is `close`.
    socket.on('error', () => undefined)
    socket.on('close', () => {
      clearInterval(this.#beating)
      setTimeout(() => this.#connect(), 50 + Math.random() * 200)
    })
  }

  #hear(frame: ServerFrame): void {
    switch (frame.type) {
      case 'welcome':
        this.#options.tally.welcomes++
        this.#beating = setInterval(() => this.#beat(), frame.heartbeatMs)
        for (const [taskId, attempt] of this.#ended) this.#tell(taskId, attempt)
        return
      case 'task.assign':
        this.#assigned++
        this.#assign(frame)
        return
      case 'task.settled':
        this.#options.tally.settled.add(frame.taskId)
        this.#ended.delete(frame.taskId)
        return
      case 'task.stale':
        this.#ended.delete(frame.taskId)
        this.#stop(frame.taskId)
        this.#beat()
    }
  }

  #assign({ taskId, attempt, payload }: Assigned): void {
    const { slots, tally } = this.#options
    this.#say({ type: 'task.accept', taskId, attempt })
    if (this.#ended.get(taskId) === attempt) {
      this.#tell(taskId, attempt)
      return
    }
    if (this.#running.get(taskId)?.attempt === attempt) return
    // An older attempt of the same task makes room for the newer.
    this.#stop(taskId)
    if (this.#running.size >= slots) tally.overCommitted++
    const timer = setTimeout(
      () => {
        this.#stop(taskId)
        this.#ended.set(taskId, attempt)
        this.#tell(taskId, attempt)
      },
      (payload as RacePayload).holdMs,
    )
    this.#running.set(taskId, { attempt, timer })
    tally.running++
  }

  #stop(taskId: string): void {
    const task = this.#running.get(taskId)
    if (task === undefined) return
    clearTimeout(task.timer)
    this.#running.delete(taskId)
    this.#options.tally.running--
  }

  #tell(taskId: string, attempt: number): void {
    this.#say({ type: 'task.result', taskId, attempt, output: null })
  }

  #beat(): void {
    this.#say({ type: 'heartbeat', load, running: this.#known(), countedSeq: this.#assigned })
  }

  #known(): string[] {
    return [...this.#running.keys(), ...this.#ended.keys()]
  }

  #say(frame: object): void {
    if (this.#socket?.readyState === WebSocket.OPEN) this.#socket.send(JSON.stringify(frame))
  }
}
