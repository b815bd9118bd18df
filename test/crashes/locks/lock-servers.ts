/**
 * Two servers of locks on one store, each a process that is killed with -9 and started again. A client has one door to
 * both; its connections may be cut just after a call went out. What was sent and not answered is over when its server
 * is dead, or has done with the connection that it came on.
 */
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Program, startProgram } from '../../support/services/program.ts'
import type { Random } from '../random.ts'
import { hearLines } from '../text-lines.ts'
import type { LockAnswer, LockCall } from './lock-operation.ts'
import { type LockDoor, Unanswered } from './lock-recorder.ts'
import type { LockReply, LockRequest, LockServerOptions } from './lock-server-process.ts'

export interface LockServers extends AsyncDisposable {
  door(client: string): LockDoor
  /** kill -9 for one that runs, and a new one in its place, `afterMs` later. */
  killAndReplace(index: number, afterMs: number): Promise<void>
  readonly cuts: number
  /** What servers answered instead of doing what they were asked. */
  readonly errors: readonly string[]
  /** Servers that ended unexpectedly, and their last output. */
  readonly accidents: readonly string[]
}

export interface LockServersOptions extends LockServerOptions {
  readonly count: number
  readonly random: Random
  /** Which share of calls loses its connection as soon as it was sent. */
  readonly cutShare: number
  /** Settles when what a dead server had sent to the store has been dealt with there. */
  readonly storeIsQuiet: () => Promise<void>
}

const script = join(import.meta.dirname, 'lock-server-process.ts')
const startMs = 30_000

/** One life of a server. */
class Server {
  readonly program: Program
  readonly port: number
  readonly #storeIsQuiet: () => Promise<void>
  #over: Promise<void> | undefined

  constructor(program: Program, port: number, storeIsQuiet: () => Promise<void>) {
    this.program = program
    this.port = port
    this.#storeIsQuiet = storeIsQuiet
  }

  /** Settles when no call that was sent to it can take effect any more. */
  over(): Promise<void> {
    this.#over ??= this.program.end.then(this.#storeIsQuiet)
    return this.#over
  }

  get isDead(): boolean {
    return this.program.ended !== undefined
  }
}

export async function startLockServers(options: LockServersOptions): Promise<LockServers> {
  const { count, random, cutShare, storeIsQuiet, url, namespace } = options
  const servers: Server[] = []
  const doors: Door[] = []
  const errors: string[] = []
  const accidents: string[] = []
  const killed = new Set<Program>()
  let cuts = 0

  async function start(): Promise<Server> {
    const args = ['--conditions=source', '--disable-warning=ExperimentalWarning', script]
    const program = await startProgram(process.execPath, [...args, JSON.stringify({ url, namespace })])
    const deadline = Date.now() + startMs
    while (program.ended === undefined && Date.now() < deadline) {
      const [, port] = /listening (\d+)/.exec(program.tail()) ?? []
      if (port !== undefined) {
        void program.end.then(() => {
          if (!killed.has(program)) accidents.push(`a server ended with ${program.ended}: ${program.tail()}`)
        })
        return new Server(program, Number(port), storeIsQuiet)
      }
      await sleep(10)
    }
    await program[Symbol.asyncDispose]()
    throw new Error(`a server of locks did not start: ${program.ended}: ${program.tail()}`)
  }

  // The first makes the tables, if there are any to make.
  for (let index = 0; index < count; index++) servers.push(await start())

  return {
    errors,
    accidents,
    get cuts() {
      return cuts
    },
    door(client) {
      const isCut = () => random() < cutShare && ++cuts > 0
      const door = new Door(client, servers, isCut, (error) => void errors.push(error))
      doors.push(door)
      return door
    },
    async killAndReplace(index, afterMs) {
      const { program } = servers[index]!
      killed.add(program)
      if (program.ended === undefined) process.kill(program.pid, 'SIGKILL')
      await program.end
      await sleep(afterMs)
      servers[index] = await start()
    },
    async [Symbol.asyncDispose]() {
      for (const door of doors) door.close()
      for (const { program } of servers) {
        killed.add(program)
        await program[Symbol.asyncDispose]()
      }
    },
  }
}

class Door implements LockDoor {
  readonly #client: string
  readonly #servers: readonly Server[]
  readonly #isCut: () => boolean
  readonly #failed: (error: string) => void
  readonly #wires = new Map<Server, Wire>()
  #turn: number

  constructor(
    client: string,
    servers: readonly Server[],
    isCut: () => boolean,
    failed: (error: string) => void,
  ) {
    this.#client = client
    this.#servers = servers
    this.#isCut = isCut
    this.#failed = failed
    this.#turn = client.length
  }

  /** Sends the call to whichever server answers, each in its turn. */
  async ask(queue: string, call: LockCall, sent: () => void): Promise<LockAnswer> {
    const deadline = Date.now() + startMs
    while (true) {
      const server = this.#servers[this.#turn++ % this.#servers.length]!
      const wire = await this.#wire(server).catch(() => undefined)
      if (wire) return await this.#through(wire, queue, call, sent)
      if (Date.now() > deadline) throw new Error('no server of locks can be reached')
      await sleep(5)
    }
  }

  async #through(wire: Wire, queue: string, call: LockCall, sent: () => void): Promise<LockAnswer> {
    const { answer, error } = await wire.ask(queue, call, sent, this.#isCut())
    if (answer) return answer
    this.#failed(`${error}`)
    // The server answered that it does not know: whatever its store made of the call, it has been made.
    throw new Unanswered(Promise.resolve(), { cause: error })
  }

  async #wire(server: Server): Promise<Wire> {
    const known = this.#wires.get(server)
    if (known?.isOpen) return known
    if (server.isDead) throw new Error('this server is dead')
    const wire = await openWire(server, this.#client)
    this.#wires.set(server, wire)
    return wire
  }

  close(): void {
    for (const wire of this.#wires.values()) wire.close()
  }
}

let wires = 0

async function openWire(server: Server, client: string): Promise<Wire> {
  const socket = connect({ host: '127.0.0.1', port: server.port, noDelay: true })
  await new Promise<void>((resolve, reject) => socket.once('connect', resolve).once('error', reject))
  return new Wire(server, socket, `${client}#${wires++}`)
}

/** A connection to one server. */
class Wire {
  readonly #server: Server
  readonly #socket: Socket
  readonly #name: string
  readonly #waiting = new Map<number, PromiseWithResolvers<LockReply>>()
  #calls = 0
  isOpen = true

  constructor(server: Server, socket: Socket, name: string) {
    this.#server = server
    this.#socket = socket
    this.#name = name
    socket.on('error', () => undefined)
    socket.once('close', () => {
      this.isOpen = false
      for (const { reject } of this.#waiting.values()) reject(new Error('the connection is gone'))
    })
    hearLines(socket, (text) => {
      const reply = JSON.parse(text) as LockReply
      this.#waiting.get(reply.id)?.resolve(reply)
      this.#waiting.delete(reply.id)
    })
    socket.write(`${name}\n`)
  }

  async ask(queue: string, call: LockCall, sent: () => void, isCut: boolean): Promise<LockReply> {
    sent()
    const replying = this.#send({ queue, call })
    if (isCut) setTimeout(() => this.#socket.destroy(), Math.random() * 3)
    try {
      return await replying
    } catch (error) {
      throw new Unanswered(this.#settled(), { cause: error })
    }
  }

  #send(request: { readonly queue: string; readonly call: LockCall } | { readonly settle: string }) {
    const id = this.#calls++
    const waiting = Promise.withResolvers<LockReply>()
    this.#waiting.set(id, waiting)
    this.#socket.write(`${JSON.stringify({ id, ...request } satisfies LockRequest)}\n`)
    return waiting.promise
  }

  /** Settles when the server is dead, or is done with all that came by this connection. */
  async #settled(): Promise<void> {
    try {
      const other = await openWire(this.#server, 'settler')
      await other.#send({ settle: this.#name })
      other.close()
    } catch {
      await this.#server.over()
    }
  }

  close(): void {
    this.#socket.destroy()
  }
}
