import { crc32 } from 'node:zlib'
import type { LockKey } from '../../locks/index.ts'
import type { Requester } from '../../locks/rules/index.ts'

/**
 * What things are called in Redis. Names are joined by a separator that no encoded name contains, so no two lists of
 * names make the same text, and text sorts as the lists do.
 *
 * Everything of a resource, its operations, their due times and the counter their tokens come from, lies in one of 64
 * shards, and every key of a shard has the same hash tag: on a cluster they are in one slot, and one script may touch
 * them all. The tag comes before anything a user chose, so braces in names change nothing.
 */
export const shardCount = 64

/** Lower than any character of an encoded name: what is shorter sorts first. */
export const separator = '\x1f'

/** Where a wait queue is. */
export interface LocatedQueue {
  /** Of its row; scripts make the keys of what is beside it out of this one (scripts/wait-queue.ts). */
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
    // Never to be changed: a wait queue would be looked for where it is not.
    const shard = crc32(this.#namespace + separator + encoded) % shardCount
    const names = [this.#in(shard, 'queue'), encodeName(operation), encoded]
    return { key: names.join(separator), shard }
  }

  /** When the wait queues of a shard and those who wait in them fall due. */
  due(shard: number): string {
    return this.#in(shard, 'due')
  }

  /** The wait queues of a shard that are held or waited for. */
  busy(shard: number): string {
    return this.#in(shard, 'busy')
  }

  /** Who waits in the wait queues of a shard, and where. */
  waits(shard: number): string {
    return this.#in(shard, 'waits')
  }

  #in(shard: number, kind: string): string {
    return `signalbox:{sb:${shard}}:${kind}:${this.#namespace}`
  }
}

/** What a shard knows of itself: its last token, and which run of the server it belongs to. For all namespaces. */
export function shardKey(shard: number): string {
  return `signalbox:{sb:${shard}}:shard`
}

/** The channel on which a namespace's topic is woken. */
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

/** From where to where the names of an operation's wait queues are. */
export function operationRange(operation: string): { readonly from: string; readonly to: string } {
  const encoded = encodeName(operation)
  return { from: `[${encoded}${separator}`, to: `(${encoded}\x20` }
}

export function encodeKey({ operation, resource }: LockKey): string {
  return encodeName(operation) + separator + encodeName(resource)
}

/** Control characters and the percent sign as %XX; all else is as it was, so that people can read it. */
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
