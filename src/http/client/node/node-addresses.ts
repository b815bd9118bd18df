import { type Backoff, backoffMs } from '../../../core/backoff.ts'
import { nodeCloseCodes } from '../../contract/index.ts'
import { shuffle } from '../servers.ts'

/** A server that nodes may connect to. */
export interface NodeAddress {
  /** Of the socket: ws or wss. */
  readonly url: string
  /** Of the server: http or https, without the path. */
  readonly base: string
}

/** How a connection to a server went. */
export interface NodeVisit {
  readonly code: number
  /** It was taken there. */
  readonly wasWelcome: boolean
  /** It was taken and lasted. */
  readonly wasGood: boolean
}

/**
 * Which server a node tries next, and after how long. Each node goes through them in an order of its own, so that those
 * of a server that died do not all come to the same one:
 *
 *     round:  b ──not there──▶ c ──not there──▶ a ──not there──▶ wait, longer after each round ──▶ b
 *
 * Whoever was taken and lost begins a new round with the next one.
 */
export class NodeAddresses {
  readonly #order: readonly NodeAddress[]
  readonly #backoff: Backoff
  readonly #random: () => number
  #place = 0
  #triedCount = 0
  #failedRounds = 0

  constructor(addresses: readonly NodeAddress[], backoff: Backoff, random: () => number = Math.random) {
    this.#order = shuffle(addresses, random)
    this.#backoff = backoff
    this.#random = random
  }

  get current(): NodeAddress {
    return this.#order[this.#place]!
  }

  get size(): number {
    return this.#order.length
  }

  /** Turns to the next server; answers how long to wait first. */
  next({ code, wasWelcome, wasGood }: NodeVisit): number {
    if (wasGood) this.#failedRounds = this.#triedCount = 0
    const stays = code === nodeCloseCodes.unknown
    if (!stays) this.#place = (this.#place + 1) % this.size
    if (stays || ++this.#triedCount >= this.size) {
      this.#triedCount = 0
      return Math.ceil(backoffMs(this.#backoff, ++this.#failedRounds))
    }
    // Nodes that lost the same server at once do not come to the others all at once.
    return wasWelcome ? Math.ceil(this.#random() * this.#backoff.baseMs) : 0
  }
}
