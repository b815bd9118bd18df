import { SignalboxError } from '../../core/errors.ts'
import type { JobStore } from '../../jobs/index.ts'
import type { Backend, BackendOptions } from '../backend.ts'
import { createMemoryBell } from './bell.ts'
import { MemoryJobs } from './jobs.ts'

/** What the memory engine can be opened with. */
export interface MemoryOptions extends BackendOptions {
  /** The store's clock, in epoch milliseconds; a fake one in tests. @default Date.now */
  readonly now?: () => number
}

/**
 * Everything in this process's memory, gone when it is closed: for tests, and as the model that the other engines are
 * compared with. Each call does all its work before it lets go of the thread, which makes each one atomic; nothing
 * here is clever, so that what is right can be read off it.
 */
export async function openMemory({ now = Date.now }: MemoryOptions): Promise<Backend> {
  let closed = false
  const check = () => {
    if (closed) {
      throw new SignalboxError(
        'closed',
        'This memory store was closed; what was in it is gone. Open another.',
      )
    }
  }
  const bell = createMemoryBell(check)
  const close = async () => {
    closed = true
    bell.silence()
  }
  return {
    name: 'memory',
    traits: { transactions: false, remoteBell: false },
    jobs: refusing(new MemoryJobs(() => Math.floor(now())), check),
    bell,
    migrator: {
      async status() {
        check()
        return { current: 1, latest: 1, pending: [] }
      },
      async up() {
        check()
        return []
      },
      sql: () => '',
    },
    warnings: [],
    async ping() {
      check()
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** The same store, asking `check` before each call. */
function refusing(jobs: JobStore, check: () => void): JobStore {
  return new Proxy(jobs, {
    get(target, name) {
      const method: unknown = Reflect.get(target, name)
      if (typeof method !== 'function') return method
      return async (...args: unknown[]) => {
        check()
        return await Reflect.apply(method, target, args)
      }
    },
  })
}
