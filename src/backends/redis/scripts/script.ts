import { createHash } from 'node:crypto'

/** A Lua script: its text never changes, and what it works on comes to it by KEYS and ARGV alone. */
export interface Script {
  readonly text: string
  /** By which Redis knows it once it was loaded. */
  readonly hash: string
}

export function createScript(...parts: readonly string[]): Script {
  const text = parts.join('\n')
  return { text, hash: createHash('sha1').update(text).digest('hex') }
}
