import type { Stores, Traits } from '../../../src/storage/backend.ts'
import { openBackend } from '../../../src/storage/open.ts'

/** The locks need this part of a backend. Redis has it too, although it keeps no jobs. */
export interface LocksBackend extends LocksStores, AsyncDisposable {
  readonly traits: Pick<Traits, 'remoteWakeUps'>
  within(namespace: string): LocksStores
}

export type LocksStores = Pick<Stores, 'locks' | 'notifier'>

/** Opens the engine of the URL, with the newest schema. */
export async function openLocks(url: string, namespace: string): Promise<LocksBackend> {
  if (!url.startsWith('redis')) return openBackend(url, { namespace, migrate: true })
  const { openRedis } = await import('../../../src/storage/redis/index.ts')
  return openRedis(url, { namespace })
}
