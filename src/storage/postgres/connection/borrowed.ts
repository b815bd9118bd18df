import type { Pool, PoolClient } from 'pg'
import type { PoolMeter } from '../../pool-meter.ts'
import { statusOf } from './driver.ts'
import { isConnectionLoss } from './failures.ts'

/** A pool, and who is told how long one waits for its connections. */
export interface MeteredPool {
  readonly pool: Pool
  readonly meter: PoolMeter
}

/** A connection out of a pool; the last of those who use it gives it back. */
export class Borrowed {
  readonly over: Promise<void>
  readonly #client: Promise<PoolClient>
  readonly #giveBack: (isBroken: boolean) => void
  #users = 0
  #isBroken = false

  constructor({ pool, meter }: MeteredPool, doing: string) {
    const ticket = meter.begin(doing)
    const { promise: over, resolve } = Promise.withResolvers<void>()
    this.over = over
    let client: PoolClient | undefined
    this.#client = pool.connect().then((lent) => {
      meter.enter(ticket)
      client = lent
      return lent
    })
    this.#giveBack = (isBroken) => {
      // A connection with an open transaction, or with answers still to come, must not be lent to the next.
      client?.release(isBroken || statusOf(client) !== 'I')
      meter.leave(ticket)
      resolve()
    }
  }

  get users(): number {
    return this.#users
  }

  async use<Result>(work: (client: PoolClient) => Promise<Result>): Promise<Result> {
    this.#users++
    try {
      return await work(await this.#client)
    } catch (error) {
      if (isConnectionLoss(error)) this.#isBroken = true
      throw error
    } finally {
      if (--this.#users === 0) this.#giveBack(this.#isBroken)
    }
  }
}
