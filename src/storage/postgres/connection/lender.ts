import type { Pool, PoolClient } from 'pg'

/**
 * Lends a pool's connections to handlers' transactions. One that comes back clean is kept at hand for the next, so that a
 * transaction need not go through the pool's timers, events and queue; after a while without use it goes back to the
 * pool, which closes it when it likes. Whoever waits at the pool comes before what is kept here.
 */
export class Lender {
  readonly #pool: Pool
  readonly #kept = new Set<PoolClient>()
  readonly #watched = new WeakSet<PoolClient>()
  /** Who is told when a connection that is lent is lost. */
  readonly #borrowers = new Map<PoolClient, () => void>()
  #timer: NodeJS.Timeout | undefined
  #isClosed = false

  constructor(pool: Pool) {
    this.#pool = pool
  }

  async lend(): Promise<PoolClient> {
    for (const client of this.#kept) {
      this.#kept.delete(client)
      hold(client, true)
      return client
    }
    const client = await this.#pool.connect()
    if (!this.#watched.has(client)) {
      this.#watched.add(client)
      const drop = () => {
        if (this.#kept.delete(client)) client.release(true)
        this.#borrowers.get(client)?.()
      }
      client.on('error', drop)
      client.on('end', drop)
    }
    return client
  }

  onLoss(client: PoolClient, told: () => void): void {
    this.#borrowers.set(client, told)
  }

  giveBack(client: PoolClient, isClean: boolean): void {
    this.#borrowers.delete(client)
    if (!isClean || this.#isClosed || this.#pool.waitingCount > 0) {
      client.release(!isClean)
      return
    }
    this.#kept.add(client)
    hold(client, false)
    if (this.#timer !== undefined) return
    this.#timer = setTimeout(() => this.#letGo(), keepMs)
    this.#timer.unref()
  }

  close(): void {
    this.#isClosed = true
    this.#letGo()
  }

  #letGo(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
    for (const client of this.#kept) {
      hold(client, true)
      client.release()
    }
    this.#kept.clear()
  }
}

const keepMs = 5_000

/** Whether the connection keeps the process alive; the driver has this, its types do not. */
function hold(client: PoolClient, holds: boolean): void {
  const { ref, unref } = client as unknown as Record<'ref' | 'unref', () => void>
  ;(holds ? ref : unref).call(client)
}
