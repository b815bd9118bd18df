import type { Stores } from '../../../src/storage/backend.ts'
import { serviceFacts } from '../../support/services/own.ts'
import { aNamespace, redisCandidates, type SqlSide } from '../candidates.ts'

/** The guards need this part of a backend. Redis has it too, although it keeps no jobs. */
export interface GuardsBackend extends GuardsStores, AsyncDisposable {
  within(namespace: string): GuardsStores
}

export type GuardsStores = Pick<Stores, 'guards'>

/** An engine under test for its guards. */
export interface GuardsCandidate {
  readonly title: string
  readonly isShared: boolean
  open(options?: { readonly namespace?: string }): Promise<GuardsBackend>
  readonly sql?: SqlSide | undefined
}

/** Redis, which keeps guards and no jobs. */
export function redisGuards(): readonly GuardsCandidate[] {
  return redisCandidates().map(({ title, isShared }) => ({
    title,
    isShared,
    async open({ namespace = aNamespace() } = {}) {
      const { openRedis } = await import('../../../src/storage/redis/index.ts')
      return openRedis(serviceFacts('redis').url, { namespace })
    },
  }))
}
