/**
 * Backends that stay open from test to test. Opening an engine may take longer than the test: Postgres opens several
 * connections and checks its schema, SQLite's writer starts a thread. A test that needs a new namespace, and any opened
 * store, borrows one.
 */
import type { Backend } from '../../src/storage/backend.ts'

export interface Lender {
  /** Lends a backend in this namespace to one borrower; disposing gives it back. */
  lend(namespace: string): Promise<Backend>
  close(): Promise<void>
}

/** Each has connections, and a server has few. */
const mostIdle = 3

/** Lends what `open` opens. */
export function createLender(open: () => Promise<Backend>): Lender {
  const idle: Backend[] = []
  return {
    async lend(namespace) {
      const backend = idle.pop() ?? (await open())
      const stores = backend.within(namespace)
      const giveBack = async () => {
        if (idle.length < mostIdle) idle.push(backend)
        else await backend.close()
      }
      return {
        ...backend,
        ...stores,
        within: (name) => (name === namespace ? stores : backend.within(name)),
        close: () =>
          Promise.reject(new Error('this backend is lent: to close one, open it with a namespace')),
        [Symbol.asyncDispose]: giveBack,
      }
    },
    async close() {
      await Promise.all(idle.splice(0).map((backend) => backend.close()))
    },
  }
}
