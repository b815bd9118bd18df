/**
 * The queue of commands for the registry. The mailbox serves them in turns of at most a millisecond, by class:
 *
 *   results ─▶ dispatches ─▶ heartbeats (the newest of each node) ─▶ admin ─▶ slices
 *
 * Results come first, because they free the slots that dispatches need. One heartbeat follows every four dispatches, so
 * that neither starves the other. Each turn serves one administrative command. Slices get the remaining time, and one
 * is served at least every 50 ms. The mailbox measures the wait of each command.
 */

import { Ring } from '../../core/ring.ts'
import { type Command, type CommandKind, type Effect, type Heartbeat, subjectOf } from './command.ts'

/** The parts of a mailbox, with its clocks and its scheduler. */
export interface MailboxParts {
  /** The registry's `apply`. */
  readonly apply: (command: Command, now: number) => readonly Effect[]
  /** Starts to carry out the effects, without waiting for them. The mailbox handles `moreWork` itself. */
  readonly run: (effects: readonly Effect[], command: Command) => void
  /** The time of day in epoch milliseconds, for the registry. */
  readonly now: () => number
  /** A clock that only goes forward, in milliseconds and fractions, for measuring. */
  readonly monotonicMs: () => number
  /** Calls back after the event loop has handled its pending work: setImmediate. */
  readonly defer: (turn: () => void) => void
  /** Called with how long each command waited and held the registry, and with its node, task or pool. */
  readonly observe?: (kind: CommandKind, waitMs: number, holdMs: number, who: string) => void
  /** Called with an error that `apply` or `run` threw; the mailbox continues. */
  readonly onError: (error: unknown, command: Command) => void
}

/** The limits of a mailbox. */
export interface MailboxOptions {
  /** @default 1 */
  readonly turnMs?: number
  /** Commands per turn. @default 256 */
  readonly turnCommands?: number
  /** How many dispatches may wait; the mailbox refuses further ones. @default 20_000 */
  readonly maxDispatches?: number
  /** How many results may wait; beyond half of it, the server stops reading from sockets. @default 100_000 */
  readonly maxResults?: number
  /** How many administrative commands may wait. @default 1_000 */
  readonly maxAdmin?: number
}

export const mailboxDefaults: Required<MailboxOptions> = {
  turnMs: 1,
  turnCommands: 256,
  maxDispatches: 20_000,
  maxResults: 100_000,
  maxAdmin: 1_000,
}

/** How many dispatches are served between two heartbeats while both wait. */
const dispatchesPerHeartbeat = 4
/** At least one slice is served in this time. */
const sliceEveryMs = 50

/** The queue of commands for a registry, by class. */
export class Mailbox {
  readonly #parts: MailboxParts
  readonly #options: Required<MailboxOptions>
  readonly #results = new Ring<QueuedCommand>()
  readonly #dispatches = new Ring<QueuedCommand>()
  readonly #heartbeats = new HeartbeatQueue()
  readonly #admin = new Ring<QueuedCommand>()
  #slice: QueuedCommand | undefined
  #tickWaits = false
  #lastSliceAt = 0
  #sinceHeartbeat = 0
  #deferred = false
  #closed = false
  #adminServed = 0

  constructor(parts: MailboxParts, options: MailboxOptions = {}) {
    this.#parts = parts
    this.#options = { ...mailboxDefaults, ...options }
  }

  /** Posts a command. False: too many commands of its class wait, or the mailbox is closed; nothing was posted. */
  post(command: Command): boolean {
    if (this.#closed || !this.#admit(command)) return false
    if (!this.#deferred) {
      this.#deferred = true
      this.#parts.defer(this.#turn)
    }
    return true
  }

  /** How many commands wait, by class. */
  depth(): Readonly<Record<LaneName, number>> {
    return {
      results: this.#results.size,
      dispatches: this.#dispatches.size,
      heartbeats: this.#heartbeats.size,
      admin: this.#admin.size,
      slices: this.#slice === undefined ? 0 : 1,
    }
  }

  /** How many administrative commands were served. */
  get adminServed(): number {
    return this.#adminServed
  }

  get isClosed(): boolean {
    return this.#closed
  }

  /** Refuses further commands and stops serving. */
  close(): void {
    this.#closed = true
  }

  #admit(command: Command): boolean {
    const queued = { command, postedAt: this.#parts.monotonicMs() }
    const { maxResults, maxDispatches, maxAdmin } = this.#options
    switch (command.kind) {
      // They overtake the node's earlier heartbeat, which would undo their effect.
      case 'nodeHello':
      case 'nodeSuspect':
      case 'nodeGone':
      case 'nodeBye':
        this.#heartbeats.drop(command.nodeId)
        return addTo(this.#results, queued, Number.POSITIVE_INFINITY)
      case 'heartbeat':
        this.#heartbeats.add(command, queued.postedAt)
        return true
      // All ticks do the same, so one waiting tick is enough.
      case 'tick':
        if (!this.#tickWaits) this.#admin.push(queued)
        this.#tickWaits = true
        return true
      case 'rebuildSlice':
        this.#slice ??= queued
        return true
    }
    const name = classOf(command)
    if (name === 'dispatches') return addTo(this.#dispatches, queued, maxDispatches)
    if (name === 'admin') return addTo(this.#admin, queued, maxAdmin)
    return addTo(this.#results, queued, maxResults)
  }

  readonly #turn = (): void => {
    const { monotonicMs, defer } = this.#parts
    const { turnMs, turnCommands } = this.#options
    const beganAt = monotonicMs()
    let at = beganAt
    let adminServed = false
    if (this.#slice !== undefined && beganAt - this.#lastSliceAt >= sliceEveryMs)
      at = this.#serve(this.#takeSlice()!, at)
    for (let count = 0; count < turnCommands && !this.#closed; count += 1) {
      let queued = this.#next()
      if (queued === undefined && !adminServed) {
        queued = takeFrom(this.#admin)
        adminServed = queued !== undefined
      }
      queued ??= this.#takeSlice()
      if (queued === undefined) break
      at = this.#serve(queued, at)
      if (at - beganAt >= turnMs) break
    }
    // A turn full of urgent commands still serves one administrative command.
    if (!adminServed && !this.#closed) {
      const queued = takeFrom(this.#admin)
      if (queued !== undefined) this.#serve(queued, at)
    }
    this.#deferred = !this.#closed && this.#waiting()
    if (this.#deferred) defer(this.#turn)
  }

  #next(): QueuedCommand | undefined {
    const result = takeFrom(this.#results)
    if (result !== undefined) return result
    if (this.#sinceHeartbeat >= dispatchesPerHeartbeat || this.#dispatches.size === 0) {
      this.#sinceHeartbeat = 0
      const heartbeat = this.#heartbeats.take()
      if (heartbeat !== undefined) return heartbeat
    }
    this.#sinceHeartbeat += 1
    return takeFrom(this.#dispatches)
  }

  #takeSlice(): QueuedCommand | undefined {
    const queued = this.#slice
    this.#slice = undefined
    return queued
  }

  #serve({ command, postedAt }: QueuedCommand, at: number): number {
    const { apply, run, now, monotonicMs, observe, onError } = this.#parts
    if (command.kind === 'tick') this.#tickWaits = false
    if (command.kind === 'rebuildSlice') this.#lastSliceAt = at
    try {
      const effects = apply(command, now())
      if (effects.some(wantsMore)) this.post({ kind: 'rebuildSlice' })
      if (effects.length > 0) run(effects, command)
    } catch (error) {
      onError(error, command)
    }
    if (classOf(command) === 'admin') this.#adminServed += 1
    const endedAt = monotonicMs()
    observe?.(command.kind, at - postedAt, endedAt - at, subjectOf(command))
    return endedAt
  }

  #waiting(): boolean {
    const { results, dispatches, heartbeats, admin, slices } = this.depth()
    return results + dispatches + heartbeats + admin + slices > 0
  }
}

function wantsMore({ kind }: Effect): boolean {
  return kind === 'moreWork'
}

function addTo(queue: Ring<QueuedCommand>, queued: QueuedCommand, limit: number): boolean {
  if (queue.size >= limit) return false
  queue.push(queued)
  return true
}

function takeFrom(queue: Ring<QueuedCommand>): QueuedCommand | undefined {
  return queue.size === 0 ? undefined : queue.shift()
}

/** The classes of commands in the order in which they are served. */
export const laneNames = ['results', 'dispatches', 'heartbeats', 'admin', 'slices'] as const

/** One of `laneNames`. */
export type LaneName = (typeof laneNames)[number]

/** A waiting command. */
interface QueuedCommand {
  readonly command: Command
  /** When it was posted, by the monotonic clock. */
  readonly postedAt: number
}

/** The class of a command: commands that free slots come first, background work comes last. */
function classOf({ kind }: Command): LaneName {
  switch (kind) {
    case 'submit':
    case 'cancel':
    case 'forget':
      return 'dispatches'
    case 'heartbeat':
      return 'heartbeats'
    case 'yield':
    case 'drain':
    case 'cordon':
    case 'definePool':
    case 'removePool':
    case 'rebuild':
    case 'tick':
      return 'admin'
    case 'rebuildSlice':
      return 'slices'
    default:
      return 'results'
  }
}

/** Waiting heartbeats: the newest of each node, in the order in which the nodes' first ones arrived. */
class HeartbeatQueue {
  readonly #waiting = new Map<string, QueuedCommand & { readonly command: Heartbeat }>()

  get size(): number {
    return this.#waiting.size
  }

  add(command: Heartbeat, postedAt: number): void {
    const { nodeId } = command
    const older = this.#waiting.get(nodeId)
    // The wait is measured from the first: a node that sends heartbeats faster must not seem to be served sooner.
    if (older === undefined) this.#waiting.set(nodeId, { command, postedAt })
    else if (older.command.epoch <= command.epoch) {
      this.#waiting.set(nodeId, { command: newest(older.command, command), postedAt: older.postedAt })
    }
  }

  take(): QueuedCommand | undefined {
    for (const [nodeId, queued] of this.#waiting) {
      this.#waiting.delete(nodeId)
      return queued
    }
    return undefined
  }

  /** Forgets a node's heartbeat, because a later command will be served before it. */
  drop(nodeId: string): void {
    this.#waiting.delete(nodeId)
  }
}

/** The newer heartbeat; fields that it lacks come from the older one of the same connection. */
function newest(older: Heartbeat, newer: Heartbeat): Heartbeat {
  if (older.epoch !== newer.epoch) return newer
  const silent = newer.running === null && newer.countedSeq === null
  const { running, countedSeq } = silent ? older : newer
  return { ...newer, load: newer.load ?? older.load, running, countedSeq }
}
