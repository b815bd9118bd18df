/** The contestants: Signalbox on an address, and the lock packages for Redis. */
import { Redis } from 'ioredis'
import { Mutex } from 'redis-semaphore'
// @ts-expect-error its manifest does not say where its types are
import Redlock from 'redlock'
import { open } from 'signalbox'
import type { LockLane } from './lane.ts'

export async function signalboxLane(url: string, redis?: string): Promise<LockLane> {
  const box = await open(url, { migrate: true, redis })
  const { locks } = box
  let asked = 0
  return {
    async pair(resource) {
      const who = { operation: 'bench', resource, node: 'bench', requestId: `r${asked++}` }
      const answer = await locks.acquire(who)
      if (answer.status !== 'granted') throw new Error(`${resource} was ${answer.status}`)
      await locks.release({ ...who, token: answer.token, outcome: 'success' })
    },
    async hold(resource, caller) {
      const held = await locks.hold('bench', resource, { node: `node-${caller}` })
      return async () => void (await held.release())
    },
    [Symbol.asyncDispose]: () => box.close(),
  }
}

export async function semaphoreLane(url: string): Promise<LockLane> {
  const redis = new Redis(url)
  const options = { lockTimeout: 30_000, acquireTimeout: 60_000, refreshInterval: 0 }
  const take = async (name: string) => {
    const mutex = new Mutex(redis, name, options)
    await mutex.acquire()
    return () => mutex.release()
  }
  return {
    async pair(name) {
      await (await take(name))()
    },
    hold: take,
    async [Symbol.asyncDispose]() {
      redis.disconnect()
    },
  }
}

export async function redlockLane(url: string): Promise<LockLane> {
  const redis = new Redis(url)
  // Its own defaults give up after ten tries; here everybody gets the lock in the end.
  const redlock = new Redlock([redis as never], { retryCount: -1, automaticExtensionThreshold: 500 })
  redlock.on('error', () => undefined)
  const take = async (name: string) => {
    const lock = await redlock.acquire([name], 30_000)
    return async () => void (await lock.release())
  }
  return {
    async pair(name) {
      await (await take(name))()
    },
    hold: take,
    async [Symbol.asyncDispose]() {
      redis.disconnect()
    },
  }
}
