import type { Lapses } from '../claim/lapses.ts'
import type { Sender } from '../connection/sender.ts'
import type { Leases } from '../jobs/leases.ts'
import type { JobStatements } from '../jobs/statements.ts'

/** Where a sweeper sweeps. */
interface Room {
  readonly namespace: string
  readonly statements: JobStatements
  readonly leases: Leases
  readonly lapses: Lapses
}

/** Removes the leases of a namespace that have no open job any more, within a second. */
export class Sweeper {
  readonly #sender: Sender
  readonly #room: Room
  /** Those that are to sweep, this one among them while it is. */
  readonly #waiting: Set<Sweeper>
  #timer: NodeJS.Timeout | undefined

  constructor(sender: Sender, room: Room, waiting: Set<Sweeper>) {
    this.#sender = sender
    this.#room = room
    this.#waiting = waiting
  }

  soon(): void {
    if (this.#timer !== undefined || !this.#room.leases.hasSpent) return
    this.#waiting.add(this)
    this.#timer = setTimeout(() => void this.sweep(), 200)
    this.#timer.unref()
  }

  /** What fails here is left to whoever reclaims the lease when it has run out. */
  sweep(): Promise<void> {
    return this.#sweep().catch(() => undefined)
  }

  async #sweep(): Promise<void> {
    clearTimeout(this.#timer)
    this.#timer = undefined
    this.#waiting.delete(this)
    const { namespace, statements, leases } = this.#room
    const spent = leases.takeSpent()
    for (let at = 0; at < spent.length; at += 500) {
      await this.#sender.run(statements.reclaim.sweep, [namespace, spent.slice(at, at + 500)])
    }
    await clearAway(this.#sender, this.#room)
  }
}

/** Keys of job_end that nobody can ask about any more, and cancellations that came too late; now and then. */
export async function clearAway(
  sender: Sender,
  { namespace, statements, lapses }: Pick<Room, 'namespace' | 'statements' | 'lapses'>,
): Promise<void> {
  if (lapses.isClearingDue()) await sender.run(statements.reclaim.clear, [namespace])
}
