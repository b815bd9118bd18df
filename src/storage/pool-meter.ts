import { type Meter, noMeter, type Ticket } from '../core/meter.ts'

/**
 * Reports the use of one pool to a meter: how long calls waited for a connection, and which calls used the connections.
 */
export class PoolMeter {
  readonly #meter: Meter
  readonly #lane: string
  readonly #size: number
  readonly #kinds = new Map<string, number>()

  /** `lane` names the pool: 'postgres.core'. */
  constructor(meter: Meter = noMeter, lane = '', size = 1) {
    this.#meter = meter
    this.#lane = lane
    this.#size = size
  }

  /** Begins a wait for a connection. `doing` is the name of the operation. */
  begin(doing: string): Ticket {
    return this.#meter.begin(this.#kinds.get(doing) ?? this.#kindOf(doing))
  }

  enter(ticket: Ticket): void {
    this.#meter.enter(ticket)
  }

  leave(ticket: Ticket): void {
    this.#meter.leave(ticket)
  }

  #kindOf(doing: string): number {
    const name = `${this.#lane}.${doing.replaceAll(' ', '-')}`
    const kind = this.#meter.kind(name, { lane: this.#lane, size: this.#size })
    this.#kinds.set(doing, kind)
    return kind
  }
}
