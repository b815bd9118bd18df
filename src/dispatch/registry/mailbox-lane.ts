/** Lanes of the mailbox: first in, first out, and heartbeats where a newer one replaces the older. */
import type { Command, Heartbeat } from './command.ts'

/** The lanes in the order they are served. */
export const laneNames = ['results', 'dispatches', 'heartbeats', 'admin', 'slices'] as const

/** One of `laneNames`. */
export type LaneName = (typeof laneNames)[number]

/** A command on its way. */
export interface Letter {
  readonly command: Command
  /** When it was posted, by the clock that measures waits. */
  readonly postedAt: number
}

/** Which lane a command goes to: what frees slots first, what only tidies up last. */
export function laneOf({ kind }: Command): LaneName {
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

/** A queue that neither shifts its array nor grows with what went through it. */
export class Lane {
  #letters: (Letter | undefined)[] = []
  #head = 0

  get size(): number {
    return this.#letters.length - this.#head
  }

  add(letter: Letter): void {
    this.#letters.push(letter)
  }

  take(): Letter | undefined {
    const letter = this.#letters[this.#head]
    if (letter === undefined) return undefined
    this.#letters[this.#head] = undefined
    this.#head += 1
    if (this.#head === this.#letters.length) {
      this.#letters = []
      this.#head = 0
    } else if (this.#head >= 1_024 && this.#head * 2 >= this.#letters.length) {
      this.#letters = this.#letters.slice(this.#head)
      this.#head = 0
    }
    return letter
  }
}

/** Heartbeats: the newest of each node, in the order in which the first of them came. */
export class HeartbeatLane {
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

/** The newer word; what it does not speak of is taken from the older of the same connection. */
function newest(older: Heartbeat, newer: Heartbeat): Heartbeat {
  if (older.epoch !== newer.epoch) return newer
  const silent = newer.running === null && newer.countedSeq === null
  const { running, countedSeq } = silent ? older : newer
  return { ...newer, load: newer.load ?? older.load, running, countedSeq }
}
