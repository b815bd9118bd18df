/** Writes to the cluster state, many at a time: when a fleet comes back after a restart, all its nodes are at the door at once. */

import { inTime } from '../in-time.ts'
import type { FleetStore, FleetWrite } from './fleet-store.ts'

const maxBatch = 200
const writeWithinMs = 5_000

interface Entry {
  readonly write: FleetWrite
  readonly resolve: (version: number | null) => void
  readonly reject: (error: unknown) => void
}

/** Makes writes in the order they were asked for, those of one turn together. */
export class ClusterWriter {
  readonly #store: Pick<FleetStore, 'write'>
  #waiting: Entry[] = []
  #isWriting = false

  constructor(store: Pick<FleetStore, 'write'>) {
    this.#store = store
  }

  /** The new version; null: too late, look again. */
  write(write: FleetWrite): Promise<number | null> {
    return new Promise((resolve, reject) => {
      this.#waiting.push({ write, resolve, reject })
      if (this.#isWriting) return
      this.#isWriting = true
      setImmediate(() => void this.#flush())
    })
  }

  async #flush(): Promise<void> {
    while (this.#waiting.length > 0) {
      const batch = this.#waiting.splice(0, maxBatch)
      try {
        const writes = batch.map(({ write }) => write)
        const versions = await inTime(writeWithinMs, () => this.#store.write(writes))
        for (const [at, { resolve }] of batch.entries()) resolve(versions[at] ?? null)
      } catch (error) {
        for (const { reject } of batch) reject(error)
      }
    }
    this.#isWriting = false
  }
}
