/**
 * A run of the registry as a list of commands with their instants. Replayed on a registry with the same policy, it gives
 * the same effects; a digest over all effects proves it.
 */
import { type Command, type Effect, Registry, type RegistryPolicy } from '../../../src/dispatch/index.ts'

/** A line of the log. */
export interface LogEntry {
  readonly command: Command
  readonly now: number
}

/** A digest of effects that follow each other: FNV-1a over their JSON. */
export class EffectDigest {
  #hash = 0x811c9dc5

  add(effects: readonly Effect[]): void {
    const text = JSON.stringify(effects)
    let hash = this.#hash
    for (let i = 0; i < text.length; i += 1) hash = Math.imul(hash ^ text.charCodeAt(i), 0x01000193)
    this.#hash = hash
  }

  get value(): string {
    return (this.#hash >>> 0).toString(16).padStart(8, '0')
  }
}

/** Replays a run. Returns the digest of its effects. */
export function replay(entries: Iterable<LogEntry>, policy: Partial<RegistryPolicy>): string {
  const registry = new Registry(policy)
  const digest = new EffectDigest()
  for (const { command, now } of entries) digest.add(registry.apply(command, now))
  return digest.value
}

/** An entry as one line of text. */
export function encodeLogEntry({ command, now }: LogEntry): string {
  return JSON.stringify([now, command])
}

/** An entry from its line. */
export function decodeLogEntry(line: string): LogEntry {
  const [now, command] = JSON.parse(line) as [number, Command]
  return { command, now }
}
