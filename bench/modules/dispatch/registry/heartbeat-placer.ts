/**
 * The usual way to place: on the node that was least busy by its last heartbeat and has a free slot by that. Several
 * servers would each do the same with the same heartbeats, so one stands for all.
 */
import { fleet, type Placer } from '../simulation.ts'

export class HeartbeatPlacer implements Placer {
  readonly #busy = new Int32Array(fleet.nodes)
  #placed: { task: number; node: number }[] = []
  /** Where the next search begins, so that ties are not always the first node's. */
  #from = 0
  readonly wakeAt: number = Number.POSITIVE_INFINITY

  submit(task: number): void {
    let best = this.#from
    for (let step = 0; step < fleet.nodes; step++) {
      const node = (this.#from + step) % fleet.nodes
      if (this.#busy[node]! < this.#busy[best]!) best = node
    }
    this.#from = (this.#from + 1) % fleet.nodes
    this.#placed.push({ task, node: best })
  }

  ended(): void {}

  /** That much it learns. */
  refused(task: number, node: number): void {
    this.#busy[node] = fleet.slots
    this.submit(task)
  }

  beat(node: number, tasks: readonly number[]): void {
    this.#busy[node] = tasks.length
  }

  wake(): void {}

  takePlaced(): readonly { readonly task: number; readonly node: number }[] {
    const placed = this.#placed
    this.#placed = []
    return placed
  }
}
