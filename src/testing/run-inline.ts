import { AsyncLocalStorage } from 'node:async_hooks'
import { SignalboxError } from '../core/errors.ts'
import type {
  Added,
  AddInTransaction,
  AddOptions,
  AnyDefinition,
  DrivenEnd,
  DrivenJobs,
  Jobs,
} from '../jobs/index.ts'
import { endOf, runTimeoutMs, thrownBy } from './drain.ts'

/** So deep may jobs be run inside of jobs: one that adds its own kind would never come to an end. */
const maxDepth = 200
/** How deep the caller is inside of handlers; jobs that are merely added at once do not count. */
const depth = new AsyncLocalStorage<number>()

/**
 * The same jobs, but an `add` comes back when what it added was run, and throws what its handler threw. What is not due,
 * or has no handler here, stays queued. Jobs that were queued before and are due go first, as ever.
 *
 * A job that is added with `tx` is not there before the commit. Where a handler adds it, it is run when that handler has
 * ended, and its error is thrown by the `add` that ran the handler. Where a test adds it, the next `add` or `drain` runs it.
 */
export function runInline(driven: DrivenJobs): Jobs {
  const { jobs } = driven
  /** Begun and not ended; what ended, for an `add` that did not run its job itself. */
  const begun = new Map<string, Promise<DrivenEnd>>()
  const ended = new Map<string, DrivenEnd>()
  /** Ids of jobs that were added with `tx` and not run yet. */
  const uncommitted: string[] = []

  async function runUntilEnded(id: string): Promise<DrivenEnd | undefined> {
    while (!ended.has(id)) {
      const running = begun.get(id)
      if (running !== undefined) await running
      else if (!(await runNext()) && !begun.has(id)) break
    }
    const end = ended.get(id)
    ended.delete(id)
    return end
  }

  async function runNext(): Promise<boolean> {
    const inside = depth.getStore() ?? 0
    if (inside >= maxDepth) throw tooDeep()
    const run = await depth.run(inside + 1, () => driven.beginNext())
    if (run === undefined) return false
    const { id } = run.job
    const end = endOf(run, runTimeoutMs)
    begun.set(id, end)
    try {
      ended.set(id, await end)
    } finally {
      begun.delete(id)
    }
    return true
  }

  async function runAll(added: readonly Added[]): Promise<void> {
    const failures: unknown[] = []
    const run = async (id: string): Promise<void> => {
      const end = await runUntilEnded(id)
      if (end?.error !== undefined && end.error !== null) failures.push(thrownBy(end.error))
    }
    for (const { id, duplicate } of added) {
      // One that was there already may be waiting for this very call.
      if (!duplicate) await run(id)
      // Inside of a handler its transaction may still be open.
      while (depth.getStore() === undefined && uncommitted.length > 0) await run(uncommitted.shift()!)
    }
    if (failures.length > 0) throw failures[0]
  }

  /** Running it now would wait for the caller's transaction, which waits for this call. */
  function runLater(added: readonly Added[]): void {
    for (const { id, duplicate } of added) if (!duplicate) uncommitted.push(id)
  }

  return {
    ...jobs,
    async add(
      kind: string | AnyDefinition,
      payload?: unknown,
      options?: AddOptions & AddInTransaction,
    ): Promise<Added> {
      const added = await jobs.add(kind as string, payload, options)
      if (options?.tx === undefined) await runAll([added])
      else runLater([added])
      return added
    },
    async addMany(list, options) {
      const added = await jobs.addMany(list, options)
      if (options?.tx === undefined) await runAll(added)
      else runLater(added)
      return added
    },
  }
}

function tooDeep(): SignalboxError {
  return new SignalboxError(
    'too_many',
    `${maxDepth} jobs run inside of each other, each added by the one before. Does a job add its own kind for ever? Test it in manual mode, with drain({ limit }).`,
    { details: { runCount: maxDepth } },
  )
}
