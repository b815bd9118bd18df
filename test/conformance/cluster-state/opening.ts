import type { Stores } from '../../../src/storage/backend.ts'
import { serviceFacts } from '../../support/services/own.ts'
import { aNamespace, redisCandidates } from '../candidates.ts'

/** The cluster state needs this part of a backend. Redis has it too, although it keeps no jobs. */
export interface ClusterBackend extends ClusterStores, AsyncDisposable {
  within(namespace: string): ClusterStores
}

export type ClusterStores = Pick<Stores, 'cluster' | 'notifier'>

/** An engine under test for its cluster state. */
export interface ClusterStateCandidate {
  readonly title: string
  readonly isShared: boolean
  open(options?: { readonly namespace?: string }): Promise<ClusterBackend>
}

/** Redis, which keeps the cluster state and no jobs. */
export function redisClusterStates(): readonly ClusterStateCandidate[] {
  return redisCandidates().map(({ title, isShared }) => ({
    title,
    isShared,
    async open({ namespace = aNamespace() } = {}) {
      const { openRedis } = await import('../../../src/storage/redis/index.ts')
      return openRedis(serviceFacts('redis').url, { namespace })
    },
  }))
}

/** Two backends on one store and namespace, as in two processes; on engines of one process, one for both. */
export async function openTwo({ open, isShared }: ClusterStateCandidate): Promise<TwoClusters> {
  const namespace = aNamespace()
  const one = await open({ namespace })
  const two = isShared ? await open({ namespace }) : undefined
  return {
    clusters: [one, two ?? one],
    async [Symbol.asyncDispose]() {
      await two?.[Symbol.asyncDispose]()
      await one[Symbol.asyncDispose]()
    },
  }
}

export interface TwoClusters extends AsyncDisposable {
  readonly clusters: readonly [ClusterStores, ClusterStores]
}
