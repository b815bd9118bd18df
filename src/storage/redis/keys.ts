import { crc32 } from 'node:zlib'
import type { LockKey } from '../../locks/index.ts'
import type { Requester } from '../../locks/rules/index.ts'

/**
 * The names of keys in Redis. Names are joined by a separator that no encoded name contains, so each list of names
 * gives another text, and the texts sort like the lists.
 *
 * All keys of a resource (its operations, their due times and its token counter) are in one of 64 shards, and every key
 * of a shard has the same hash tag: on a cluster they are in one slot, and one script may use them all. The tag
 * precedes everything that a user chose, so braces in names change nothing.
 */
export const shardCount = 64

/** Lower than any character of an encoded name, so shorter names sort first. */
export const separator = '\x1f'

/** The keys of a wait queue. */
export interface LocatedQueue {
  /** The key of its row. Scripts derive the other keys from it (scripts/wait-queue.ts). */
  readonly key: string
  readonly shard: number
}

/** The keys of a namespace. */
export class Keyring {
  readonly #namespace: string

  constructor(namespace: string) {
    this.#namespace = encodeName(namespace)
  }

  locate({ operation, resource }: LockKey): LocatedQueue {
    const encoded = encodeName(resource)
    // Never change this: the store would look for a wait queue in the wrong shard.
    const shard = crc32(this.#namespace + separator + encoded) % shardCount
    const names = [this.#in(shard, 'queue'), encodeName(operation), encoded]
    return { key: names.join(separator), shard }
  }

  /** The due times of a shard's wait queues and of their waiters. */
  due(shard: number): string {
    return this.#in(shard, 'due')
  }

  /** The wait queues of a shard that have a holder or waiters. */
  busy(shard: number): string {
    return this.#in(shard, 'busy')
  }

  /** The waiters of a shard's wait queues, and where they wait. */
  waits(shard: number): string {
    return this.#in(shard, 'waits')
  }

  #in(shard: number, kind: string): string {
    return `signalbox:{sb:${shard}}:${kind}:${this.#namespace}`
  }
}

/** The metadata of a shard, for all namespaces: its last token, and the run of its server. */
export function shardKey(shard: number): string {
  return `signalbox:{sb:${shard}}:shard`
}

/** The channel of a namespace's topic. */
export function channelOf(namespace: string, topic: string): string {
  return `signalbox:wake:${encodeName(namespace)}${separator}${topic}`
}

export function encodeRequester({ node, requestId }: Requester): string {
  return encodeName(node) + separator + encodeName(requestId)
}

export function decodeRequester(encoded: string): Requester {
  const [node = '', requestId = ''] = decodeNames(encoded)
  return { node, requestId }
}

export function decodeKey(name: string): LockKey {
  const [operation = '', resource = ''] = decodeNames(name)
  return { operation, resource }
}

/** A due entry: a wait queue, or a waiter in it. */
export interface DueEntry {
  readonly key: LockKey
  readonly who: Requester | undefined
}

export function decodeDue(entry: string): DueEntry {
  const [operation = '', resource = '', node, requestId = ''] = decodeNames(entry)
  return { key: { operation, resource }, who: node === undefined ? undefined : { node, requestId } }
}

/** Decodes a waiter's position in a wait queue, as scripts store it under the waiter's identity. */
export function decodeWait(entry: string): { readonly key: LockKey; readonly seq: number } {
  const [, name = '', seq] = entry.split('\x1e')
  return { key: decodeKey(name), seq: Number(seq) }
}

/** The range of names of an operation's wait queues. */
export function operationRange(operation: string): { readonly from: string; readonly to: string } {
  const encoded = encodeName(operation)
  return { from: `[${encoded}${separator}`, to: `(${encoded}\x20` }
}

export function encodeKey({ operation, resource }: LockKey): string {
  return encodeName(operation) + separator + encodeName(resource)
}

/** Writes control characters and the percent sign as %XX. Other characters stay readable. */
export function encodeName(name: string): string {
  if (!special.test(name)) return name
  return name.replace(
    specials,
    (char) => `%${char.charCodeAt(0).toString(16).padStart(2, '0').toUpperCase()}`,
  )
}

export function decodeNames(joined: string): readonly string[] {
  const names = joined.split(separator)
  if (!joined.includes('%')) return names
  return names.map((name) =>
    name.replace(/%([0-9A-F]{2})/g, (_, hex: string) => String.fromCharCode(Number.parseInt(hex, 16))),
  )
}

// biome-ignore lint/suspicious/noControlCharactersInRegex: these are the ones to be written otherwise.
const special = /[%\x00-\x1f\x7f]/
const specials = new RegExp(special.source, 'g')

/**
 * The keys of guards and windows in Redis. Each is one key with its own slot, so that a cluster spreads them. The hash
 * tag is empty, which Redis ignores. It precedes everything that a user chose, so braces in names change nothing.
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

  /** The pattern for SCAN. */
  pattern(space: string): string {
    const begin = this.#guards + encodeName(space) + separator
    return `${begin.replace(/[*?[\]\\^-]/g, '\\$&')}*`
  }

  keyOf(name: string): string {
    return decodeNames(name).at(-1) ?? ''
  }
}
