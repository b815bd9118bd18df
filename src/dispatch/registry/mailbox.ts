/**
 * The mailbox before the registry. Commands are served in turns of at most a millisecond, in the order of their lanes:
 *
 *   results ─▶ dispatches ─▶ heartbeats (the newest of each node) ─▶ admin ─▶ slices
 *
 * Results free slots, so they come before what needs slots. One heartbeat goes with every four dispatches, so that
 * neither starves the other; one administrative command goes with each turn; slices take the time that is left, and
 * one is served every 50 ms whatever else there is. All that waits here is measured.
 */

import { Ring } from '../../core/ring.ts'
import type { Effect } from './command.ts'
import { type Command, type CommandKind, type Heartbeat, subjectOf } from './command.ts'

/** What a mailbox needs, clocks and scheduler included. */
export interface MailboxParts {
  /** The registry's `apply`. */
  readonly apply: (command: Command, now: number) => readonly Effect[]
  /** Does what the effects ask for, without waiting for it. `moreWork` is the mailbox's own. */
  readonly run: (effects: readonly Effect[], command: Command) => void
  /** The time of day in epoch milliseconds, for the registry. */
  readonly now: () => number
  /** A clock that only goes forward, in milliseconds and fractions, for measuring. */
  readonly monotonicMs: () => number
  /** Calls back soon, after what the event loop has to do meanwhile: setImmediate. */
  readonly defer: (turn: () => void) => void
  /** Called with how long each command waited and held the registry, and the node, task or pool it was about. */
  readonly observe?: (kind: CommandKind, waitMs: number, holdMs: number, who: string) => void
  /** Called with what `apply` or `run` threw; the mailbox goes on. */
  readonly onError: (error: unknown, command: Command) => void
}

/** What a mailbox can be given. */
export interface MailboxOptions {
  /** @default 1 */
  readonly turnMs?: number
  /** Commands per turn. @default 256 */
  readonly turnCommands?: number
  /** Dispatches that may wait; more are refused. @default 20_000 */
  readonly maxDispatches?: number
  /** Results that may wait; more mean that sockets must not be read for a while. @default 100_000 */
  readonly maxResults?: number
  /** Administrative commands that may wait. @default 1_000 */
  readonly maxAdmin?: number
}

export const mailboxDefaults: Required<MailboxOptions> = {
  turnMs: 1,
  turnCommands: 256,
  maxDispatches: 20_000,
  maxResults: 100_000,
  maxAdmin: 1_000,
}

/** Dispatches between two heartbeats while both wait. */
const dispatchesPerHeartbeat = 4
/** A slice is served at least this often. */
const sliceEveryMs = 50

/** The lanes before a registry. */
export class Mailbox {
  readonly #parts: MailboxParts
  readonly #options: Required<MailboxOptions>
  readonly #results = new Ring<Letter>()
  readonly #dispatches = new Ring<Letter>()
  readonly #heartbeats = new HeartbeatLane()
  readonly #admin = new Ring<Letter>()
  #slice: Letter | null = null
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

  /** Posts a command. False: its lane is full, and nothing was posted. */
  post(command: Command): boolean {
    if (this.#closed || !this.#admit(command)) return false
    if (!this.#deferred) {
      this.#deferred = true
      this.#parts.defer(this.#turn)
    }
    return true
  }

  /** How many commands wait, by lane. */
  depth(): Readonly<Record<LaneName, number>> {
    return {
      results: this.#results.size,
      dispatches: this.#dispatches.size,
      heartbeats: this.#heartbeats.size,
      admin: this.#admin.size,
      slices: this.#slice === null ? 0 : 1,
    }
  }

  /** How many administrative commands have had their turn. */
  get adminServed(): number {
    return this.#adminServed
  }

  get isClosed(): boolean {
    return this.#closed
  }

  /** Takes no more commands and serves no more turns. */
  close(): void {
    this.#closed = true
  }

  #admit(command: Command): boolean {
    const postedAt = this.#parts.monotonicMs()
    const { maxResults, maxDispatches, maxAdmin } = this.#options
    switch (laneOf(command)) {
      case 'results':
        return this.#admitResult({ command, postedAt }, maxResults)
      case 'dispatches':
        return addTo(this.#dispatches, { command, postedAt }, maxDispatches)
      case 'heartbeats':
        if (command.kind === 'heartbeat') this.#heartbeats.add(command, postedAt)
        return true
      case 'admin':
        // Ticks are alike: one that waits is as good as two.
        if (command.kind === 'tick' && this.#tickWaits) return true
        if (command.kind !== 'tick') return addTo(this.#admin, { command, postedAt }, maxAdmin)
        this.#tickWaits = true
        this.#admin.push({ command, postedAt })
        return true
      case 'slices':
        this.#slice ??= { command, postedAt }
        return true
    }
  }

  #admitResult(letter: Letter, limit: number): boolean {
    const { command } = letter
    switch (command.kind) {
      // They overtake the node's earlier heartbeat, which would undo what they say.
      case 'nodeHello':
      case 'nodeSuspect':
      case 'nodeGone':
      case 'nodeBye':
        this.#heartbeats.drop(command.nodeId)
        this.#results.push(letter)
        return true
      default:
        return addTo(this.#results, letter, limit)
    }
  }

  readonly #turn = (): void => {
    const { monotonicMs, defer } = this.#parts
    const { turnMs, turnCommands } = this.#options
    const beganAt = monotonicMs()
    let at = beganAt
    let adminServed = false
    if (this.#slice !== null && beganAt - this.#lastSliceAt >= sliceEveryMs)
      at = this.#serve(this.#takeSlice()!, at)
    for (let count = 0; count < turnCommands && !this.#closed; count += 1) {
      let letter = this.#next()
      if (letter === undefined && !adminServed) {
        letter = takeFrom(this.#admin)
        adminServed = letter !== undefined
      }
      letter ??= this.#takeSlice()
      if (letter === undefined) break
      at = this.#serve(letter, at)
      if (at - beganAt >= turnMs) break
    }
    // A full turn of urgent things still serves one administrative command.
    if (!adminServed && !this.#closed) {
      const letter = takeFrom(this.#admin)
      if (letter !== undefined) this.#serve(letter, at)
    }
    this.#deferred = !this.#closed && this.#waiting()
    if (this.#deferred) defer(this.#turn)
  }

  #next(): Letter | undefined {
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

  #takeSlice(): Letter | undefined {
    const letter = this.#slice ?? undefined
    this.#slice = null
    return letter
  }

  #serve({ command, postedAt }: Letter, at: number): number {
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
    if (laneOf(command) === 'admin') this.#adminServed += 1
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

function addTo(lane: Ring<Letter>, letter: Letter, limit: number): boolean {
  if (lane.size >= limit) return false
  lane.push(letter)
  return true
}

function takeFrom(lane: Ring<Letter>): Letter | undefined {
  return lane.size === 0 ? undefined : lane.shift()
}

/** The lanes in the order they are served. */
export const laneNames = ['results', 'dispatches', 'heartbeats', 'admin', 'slices'] as const

/** One of `laneNames`. */
export type LaneName = (typeof laneNames)[number]

/** A command on its way. */
interface Letter {
  readonly command: Command
  /** When it was posted, by the clock that measures waits. */
  readonly postedAt: number
}

/** Which lane a command goes to: what frees slots first, what only tidies up last. */
function laneOf({ kind }: Command): LaneName {
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

/** Heartbeats: the newest of each node, in the order in which the first of them came. */
class HeartbeatLane {
  readonly #letters = new Map<string, Letter & { readonly command: Heartbeat }>()

  get size(): number {
    return this.#letters.size
  }

  add(command: Heartbeat, postedAt: number): void {
    const { nodeId } = command
    const older = this.#letters.get(nodeId)
    // The wait is counted from the first: a node that beats faster must not look as if it were served sooner.
    if (older === undefined) this.#letters.set(nodeId, { command, postedAt })
    else if (older.command.epoch <= command.epoch) {
      this.#letters.set(nodeId, { command: newest(older.command, command), postedAt: older.postedAt })
    }
  }

  take(): Letter | undefined {
    for (const [nodeId, letter] of this.#letters) {
      this.#letters.delete(nodeId)
      return letter
    }
    return undefined
  }

  /** Forgets a node's heartbeat, for something that came after it and will be served before it. */
  drop(nodeId: string): void {
    this.#letters.delete(nodeId)
  }
}

/** The newer heartbeat; fields that it lacks come from the older one of the same connection. */
function newest(older: Heartbeat, newer: Heartbeat): Heartbeat {
  if (older.epoch !== newer.epoch) return newer
  const silent = newer.running === null && newer.countedSeq === null
  const { running, countedSeq } = silent ? older : newer
  return { ...newer, load: newer.load ?? older.load, running, countedSeq }
}
