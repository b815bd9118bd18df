import { decodeNames, encodeName, separator } from './keys.ts'

/**
 * What guards and windows are called in Redis. Each is one key, alone in its slot, so that a cluster spreads them; the
 * hash tag is empty, which Redis takes for none, and comes before anything a user chose, so braces in names change nothing.
 */
export class GuardKeys {
  readonly #guards: string
  readonly #windows: string

  constructor(namespace: string) {
    const encoded = encodeName(namespace)
    this.#guards = `signalbox:{}guard:${encoded}${separator}`
    this.#windows = `signalbox:{}window:${encoded}${separator}`
  }

  guard(space: string, key: string): string {
    return this.#guards + encodeName(space) + separator + encodeName(key)
  }

  window(digest: string): string {
    return this.#windows + digest
  }

  /** What SCAN is to look for. */
  pattern(space: string): string {
    const begin = this.#guards + encodeName(space) + separator
    return `${begin.replace(/[*?[\]\\^-]/g, '\\$&')}*`
  }

  keyOf(name: string): string {
    return decodeNames(name).at(-1) ?? ''
  }
}
