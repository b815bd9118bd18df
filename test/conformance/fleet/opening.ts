import type { Stores } from '../../../src/storage/backend.ts'
import { serviceFacts } from '../../support/services/own.ts'
import { aNamespace, redisCandidates } from '../candidates.ts'

/** What a fleet's board asks of a backend: a whole one has it, and so has Redis, which keeps no jobs. */
export interface FleetBackend extends FleetStores, AsyncDisposable {
  within(namespace: string): FleetStores
}

export type FleetStores = Pick<Stores, 'fleet' | 'notifier'>

/** An engine under test for what it keeps of a fleet. */
export interface FleetCandidate {
  readonly title: string
  readonly isShared: boolean
  open(options?: { readonly namespace?: string }): Promise<FleetBackend>
}

/** Redis, which keeps the board and no jobs. */
export function redisFleets(): readonly FleetCandidate[] {
  return redisCandidates().map(({ title, isShared }) => ({
    title,
    isShared,
    async open({ namespace = aNamespace() } = {}) {
      const { openRedis } = await import('../../../src/storage/redis/index.ts')
      return openRedis(serviceFacts('redis').url, { namespace })
    },
  }))
}

/** Two backends on one store and namespace, as two processes have them; where nothing is shared, one for both. */
export async function openTwo({ open, isShared }: FleetCandidate): Promise<TwoFleets> {
  const namespace = aNamespace()
  const one = await open({ namespace })
  const two = isShared ? await open({ namespace }) : undefined
  return {
    fleets: [one, two ?? one],
    async [Symbol.asyncDispose]() {
      await two?.[Symbol.asyncDispose]()
      await one[Symbol.asyncDispose]()
    },
  }
}

export interface TwoFleets extends AsyncDisposable {
  readonly fleets: readonly [FleetStores, FleetStores]
}
