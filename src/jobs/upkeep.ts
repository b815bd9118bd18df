import { createLoop, type Loop } from '../core/loop.ts'
import type { DependencyStore } from './dependencies/dependency-store.ts'
import type { JobStore } from './job-store.ts'
import type { LogStore } from './logs/log-store.ts'

/**
 * Forgets what ended long ago, and what was noted then. Safe anywhere and any number of times: each bite is one transaction, and many boxes
 * doing so at once only share the work. Leases and due times need no upkeep; `claim` judges them itself.
 */
export function createUpkeep(
  {
    jobs,
    logs,
    dependencies,
  }: {
    readonly jobs: JobStore
    readonly logs: Pick<LogStore, 'prune'>
    readonly dependencies: Pick<DependencyStore, 'prune'>
  },
  retentionMs: number,
): Loop {
  return createLoop({
    name: 'jobs.upkeep',
    idleMs: Math.min(60_000, Math.max(1_000, retentionMs)),
    async step() {
      const bite = { olderThanMs: retentionMs, limit: biteSize }
      const pruned = [await jobs.prune(bite), await logs.prune(bite), await dependencies.prune(biteSize)]
      return pruned.includes(biteSize) ? 'more' : 'idle'
    },
  })
}

const biteSize = 1_000
