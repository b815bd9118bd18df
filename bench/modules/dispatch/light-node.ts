/**
 * A node of the least code: a `ws` client that says hello, beats, and does each task at once, with the frames that
 * `connectNode` would send. Tasks may be given something to do.
 */
import { WebSocket } from 'ws'
import type { ServerFrame } from '../../../src/dispatch/index.ts'

type Assigned = Extract<ServerFrame, { readonly type: 'task.assign' }>

export interface LightNodeOptions {
  readonly port: number
  readonly nodeId: string
  readonly services: Readonly<Record<string, number>>
  /** @default what the welcome says */
  readonly heartbeatMs?: number
  /** Calls back when it is done. @default at once */
  readonly work?: (task: Assigned, done: () => void) => void
  /** Told when the socket has closed. */
  readonly onClosed?: () => void
}

const load = { cpu: 0.5, gpu: 0.5, memory: 0.5 }

export class LightNode {
  readonly #socket: WebSocket
  readonly #options: LightNodeOptions
  readonly #running = new Set<string>()
  #assigned = 0
  #beating: NodeJS.Timeout | undefined
  settledCount = 0

  /** Resolves when it was welcomed. */
  readonly welcomed: Promise<void>

  constructor(options: LightNodeOptions) {
    const { port, nodeId, services, onClosed } = options
    this.#options = options
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    this.welcomed = promise
    this.#socket = new WebSocket(`ws://127.0.0.1:${port}/v1/nodes/connect`, { perMessageDeflate: false })
    this.#socket.on('open', () => {
      const offers = Object.entries(services).map(([name, slots]) => ({ name, slots }))
      const instanceId = `${nodeId}-${process.pid}`
      this.#say({ type: 'hello', nodeId, instanceId, services: offers, running: null, protocol: 1 })
    })
    this.#socket.on('message', (data: Buffer) =>
      this.#hear(JSON.parse(data.toString()) as ServerFrame, resolve),
    )
    this.#socket.on('error', reject)
    this.#socket.on('close', (code) => {
      clearTimeout(this.#beating)
      reject(new Error(`its socket closed with ${code}`))
      onClosed?.()
    })
    // A node that only counts lost sockets does not wait for the welcome.
    promise.catch(() => undefined)
  }

  get isOpen(): boolean {
    return this.#socket.readyState === WebSocket.OPEN
  }

  close(): void {
    this.#socket.terminate()
  }

  #hear(frame: ServerFrame, welcome: () => void): void {
    switch (frame.type) {
      case 'welcome': {
        const everyMs = this.#options.heartbeatMs ?? frame.heartbeatMs
        // Not all in the same moment, though all came in the same one.
        this.#beating = setTimeout(() => this.#beat(everyMs), Math.random() * everyMs)
        welcome()
        return
      }
      case 'task.assign':
        this.#assign(frame)
        return
      case 'task.settled':
        this.settledCount++
    }
  }

  #assign(task: Assigned): void {
    const { taskId, attempt } = task
    this.#assigned++
    this.#running.add(taskId)
    this.#say({ type: 'task.accept', taskId, attempt })
    const done = () => {
      this.#running.delete(taskId)
      this.#say({ type: 'task.result', taskId, attempt, output: { ok: true } })
    }
    const { work } = this.#options
    if (work === undefined) done()
    else work(task, done)
  }

  #beat(everyMs: number): void {
    this.#say({ type: 'heartbeat', load, running: [...this.#running], countedSeq: this.#assigned })
    this.#beating = setTimeout(() => this.#beat(everyMs), everyMs)
  }

  #say(frame: object): void {
    if (this.isOpen) this.#socket.send(JSON.stringify(frame))
  }
}
