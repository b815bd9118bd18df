import { flushCompileCache } from 'node:module'

/**
 * Stores the compiled code of this process for the next one. Node does so only when a process ends normally, so after a
 * kill each new process would compile thousands of lines again.
 */
export function keepCompiled(): void {
  flushCompileCache()
}
