import { createLoop, type Loop } from '../core/loop.ts'
import type { JobStore } from './store.ts'

/**
 * Forgets what ended long ago. Safe anywhere and any number of times: each bite is one transaction, and many boxes
 * doing so at once only share the work. Leases and due times need no upkeep; `claim` judges them itself.
 */
export function createUpkeep(store: JobStore, retentionMs: number): Loop {
  return createLoop({
    name: 'jobs.upkeep',
    idleMs: Math.min(60_000, Math.max(1_000, retentionMs)),
    step: async () =>
      (await store.prune({ olderThanMs: retentionMs, limit: biteSize })) === biteSize ? 'more' : 'idle',
  })
}

const biteSize = 1_000
