/** Signalbox itself, through its public door. */
import { open } from 'signalbox'
import type { ClaimLane } from './lane.ts'

/** Claims on an address; with `redis`, the guards are there. One key is asked for by `claim`. */
export async function signalboxLane(url: string, redis?: string): Promise<ClaimLane> {
  const box = await open(url, { migrate: true, ...(redis !== undefined && { redis }) })
  const { once } = box
  return {
    async claimMany(keys) {
      const answers = keys.length === 1 ? [await once.claim(keys[0]!)] : await once.claimMany(keys)
      for (const answer of answers) {
        // One that the store never knew of costs nothing, and must not count.
        if (answer.status !== 'run' || answer.degraded)
          throw new Error(`a fresh key is ${answer.status}${'degraded' in answer ? ', degraded' : ''}`)
      }
    },
    [Symbol.asyncDispose]: () => box.close(),
  }
}
