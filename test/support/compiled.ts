import { flushCompileCache } from 'node:module'

/**
 * Writes down what this process has compiled, for the next one that is started. Node does so when a process ends, and
 * one that is killed never comes to it; thousands of lines would be compiled anew for each that takes its place.
 */
export function keepCompiled(): void {
  flushCompileCache()
}
