import { setNewest } from '../core/newest-entries.ts'

/**
 * Waits for locks by key: the holder, the waiters, and how long they waited for each holder. It knows only the locks of
 * this process. While a node holds a key, each waiter adds to the node's time: ten waiters for a second are ten
 * seconds.
 *
 * The number of keys is limited. When it is full, the key without events for the longest time is evicted, first among
 * keys without waiters.
 */
export class KeyWaits {
  readonly #keys = new Map<string, KeyEntry>()
  /** The latest holder of each key. Later waits are charged to it. */
  readonly #holders = new Map<string, string>()
  readonly #max: number
  readonly #now: () => number
  /** How many keys were evicted. */
  overflow = 0

  constructor(max: number, now: () => number) {
    this.#max = max
    this.#now = now
  }

  /** Records that a waiter entered the wait queue, or is still in it. */
  queued(key: WaitKey, node: string, requestId: string): void {
    const now = this.#now()
    const entry = this.#touch(key, now)
    if (entry.waiters.size >= maxWaiters) this.#forgetGone(entry, now)
    const waiter = entry.waiters.get(waiterName(node, requestId))
    if (waiter !== undefined) waiter.seenAt = now
    else if (entry.waiters.size < maxWaiters)
      entry.waiters.set(waiterName(node, requestId), { node, since: now, seenAt: now })
  }

  /** Records that a requester got the key, with or without a wait. */
  granted(key: WaitKey, node: string, requestId: string): void {
    const name = keyName(key)
    setNewest(this.#holders, name, node, this.#max)
    if (!this.#keys.has(name)) return
    const now = this.#now()
    const entry = this.#touch(key, now)
    this.#end(entry, waiterName(node, requestId), now)
    entry.holder = node
  }

  /** Records that a waiter left the wait queue. */
  left(key: WaitKey, node: string, requestId: string): void {
    const entry = this.#keys.get(keyName(key))
    if (entry === undefined) return
    const now = this.#now()
    charge(entry, now)
    this.#end(entry, waiterName(node, requestId), now)
  }

  /** Records that the holder released the key, and that `next` holds it now. */
  released(key: WaitKey, next: { readonly node: string; readonly requestId: string } | null): void {
    const name = keyName(key)
    this.#holders.delete(name)
    const entry = this.#keys.get(name)
    if (entry === undefined) return
    charge(entry, this.#now())
    entry.holder = null
    if (next !== null) this.granted(key, next.node, next.requestId)
  }

  /** Records the holder of a key, as the store reports it. */
  heldBy(key: WaitKey, node: string | null): void {
    const entry = this.#keys.get(keyName(key))
    if (entry === undefined || entry.holder === node) return
    charge(entry, this.#now())
    entry.holder = node
  }

  /** The keys of a namespace, or all keys, with the longest waits first. */
  list(namespace?: string): readonly KeyEntry[] {
    const now = this.#now()
    const entries = [...this.#keys.values()].filter(
      (entry) => namespace === undefined || entry.key.namespace === namespace,
    )
    for (const entry of entries) {
      charge(entry, now)
      this.#forgetGone(entry, now)
    }
    return entries.sort((one, other) => other.waitedMs - one.waitedMs)
  }

  #touch(key: WaitKey, now: number): KeyEntry {
    const name = keyName(key)
    let entry = this.#keys.get(name)
    if (entry === undefined) {
      if (this.#keys.size >= this.#max) this.#evictOldest(now)
      entry = {
        key: { namespace: key.namespace, operation: key.operation, resource: key.resource },
        holder: this.#holders.get(name) ?? null,
        waiters: new Map(),
        waitCount: 0,
        waitedMs: 0,
        maxWaitMs: 0,
        byHolder: new Map(),
        chargedAt: now,
      }
    } else {
      charge(entry, now)
      // Moved to the end, so that the first key has been without events for the longest time.
      this.#keys.delete(name)
    }
    this.#keys.set(name, entry)
    return entry
  }

  #end(entry: KeyEntry, name: string, now: number): void {
    const waiter = entry.waiters.get(name)
    if (waiter === undefined) return
    entry.waiters.delete(name)
    entry.waitCount++
    entry.maxWaitMs = Math.max(entry.maxWaitMs, now - waiter.since)
  }

  #evictOldest(now: number): void {
    this.overflow++
    let tries = 0
    for (const [name, entry] of this.#keys) {
      this.#forgetGone(entry, now)
      if (entry.waiters.size > 0 && ++tries < evictionTries) continue
      this.#keys.delete(name)
      return
    }
    const [oldest] = this.#keys.keys()
    this.#keys.delete(oldest!)
  }

  /** A waiter renews its position regularly. If it has not done so for long, it is gone, or uses another server. */
  #forgetGone(entry: KeyEntry, now: number): void {
    for (const [name, { seenAt }] of entry.waiters) {
      if (now - seenAt > goneMs) this.#end(entry, name, seenAt)
    }
  }
}

export interface WaitKey {
  readonly namespace: string
  readonly operation: string
  readonly resource: string
}

export interface KeyEntry {
  readonly key: WaitKey
  /** Null: there is no holder, or this process does not know it. */
  holder: string | null
  readonly waiters: Map<string, { readonly node: string; readonly since: number; seenAt: number }>
  /** How many waits ended. */
  waitCount: number
  waitedMs: number
  maxWaitMs: number
  readonly byHolder: Map<string, number>
  chargedAt: number
}

const maxWaiters = 100
const maxHolders = 8
const goneMs = 60_000
const evictionTries = 16
/** The name for an unknown holder, and for holders beyond the limit. */
const otherHolder = ''

function charge(entry: KeyEntry, now: number): void {
  let ms = 0
  // A wait ends when the waiter is assumed gone.
  for (const { seenAt } of entry.waiters.values())
    ms += Math.max(0, Math.min(now, seenAt + goneMs) - entry.chargedAt)
  entry.chargedAt = now
  if (!(ms > 0)) return
  entry.waitedMs += ms
  const holder = entry.holder ?? otherHolder
  const isKnown = entry.byHolder.has(holder) || entry.byHolder.size < maxHolders
  const charged = isKnown ? holder : otherHolder
  entry.byHolder.set(charged, (entry.byHolder.get(charged) ?? 0) + ms)
}

/** A unique name, because no part contains a control character. */
function keyName({ namespace, operation, resource }: WaitKey): string {
  return `${namespace}\n${operation}\n${resource}`
}

function waiterName(node: string, requestId: string): string {
  return `${node}\n${requestId}`
}
