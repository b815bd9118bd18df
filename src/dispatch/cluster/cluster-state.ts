/**
 * The cluster state as this process knows it: it reads what is new, keeps the rows, and calls its listeners. Wake-ups
 * say when to read, and polling finds what they missed. The rows may be a little old, so each write is conditional on
 * the version that the writer saw, and the store decides.
 */

import { Batcher } from '../../core/batcher.ts'
import { SignalboxError } from '../../core/errors.ts'
import { createLoop, type Loop } from '../../core/loop.ts'
import { createNotifier, type Notifier } from '../../core/notifier.ts'
import type { JobsNotifier } from '../../jobs/index.ts'
import { inTime, Stretch } from '../time-limits.ts'
import {
  type ClusterKind,
  type ClusterPage,
  type ClusterRecord,
  type ClusterStore,
  type ClusterWrite,
  clusterTopic,
  tombstoneMs,
} from './cluster-store.ts'

/** A row with its document read. */
export interface ClusterRow {
  readonly version: number
  readonly doc: unknown
  /** By the store's clock. */
  readonly expiresAt: number | null
}

/** A row was written, or (without `row`) removed. */
export interface ClusterChange {
  readonly kind: ClusterKind
  readonly key: string
  readonly version: number
  readonly row: ClusterRow | undefined
  /** The cluster state was read anew: versions from before may mean nothing any more. */
  readonly isAnew?: boolean
}

/** What the cluster state is made of. */
export interface ClusterStateParts {
  readonly store: ClusterStore
  readonly notifier: JobsNotifier
  readonly monotonicMs: () => number
  readonly onTrouble: (error: unknown) => void
}

type Rows = Map<ClusterKind, Map<string, ClusterRow>>

const kinds = ['server', 'node', 'demand', 'pool', 'cordon', 'drain'] as const
/** Kinds of rows without an owner: when the store loses them, every server that still has them writes them again. */
const common = ['demand', 'pool', 'cordon', 'drain'] as const
const pageSize = 500
const readWithinMs = 10_000
const findWithinMs = 5_000
/** The most writes that go together, and how long they may take. */
const maxWrites = 200
const writeWithinMs = 5_000
const conflictTries = 8

/** Reads and keeps the cluster state. */
export class ClusterState {
  readonly #parts: ClusterStateParts
  /** When a fleet comes back after a restart, all its nodes register at once: they share writes. */
  readonly #writes: Batcher<ClusterWrite, number | null>
  readonly #wakeUp: Notifier = createNotifier()
  readonly #listeners: ((change: ClusterChange) => void)[] = []
  readonly #readListeners: ((isAnew: boolean) => void)[] = []
  readonly #loaded = Promise.withResolvers<void>()
  #rows: Rows = emptyRows()
  #since = 0
  #isLoaded = false
  /** When the last reading that came to its end ended: by the store's clock, and by this process's own. */
  #lastRead = { now: Number.NEGATIVE_INFINITY, at: Number.NEGATIVE_INFINITY }
  #clock = { now: 0, at: 0 }
  #reading: Promise<void> | null = null
  #after: Promise<void> | null = null
  #loop: Loop | null = null
  #unlisten: (() => void) | null = null

  constructor(parts: ClusterStateParts) {
    this.#parts = parts
    this.#writes = new Batcher({
      maxItems: maxWrites,
      run: (writes) => inTime(writeWithinMs, () => parts.store.write(writes)),
    })
  }

  /** Resolves when it has been read once. */
  get loaded(): Promise<void> {
    return this.#loaded.promise
  }

  get isLoaded(): boolean {
    return this.#isLoaded
  }

  /**
   * What it has read up to: a row that was written with this version or before, and is not here, is not there any
   * more.
   */
  get readVersion(): number {
    return this.#since
  }

  /** The store's clock when it was last read: what has expired by then has. */
  get readNow(): number {
    return this.#clock.now
  }

  /** The store's clock now, about. */
  get storeNow(): number {
    return this.#clock.now + this.#parts.monotonicMs() - this.#clock.at
  }

  rows(kind: ClusterKind): ReadonlyMap<string, ClusterRow> {
    return this.#rows.get(kind)!
  }

  /** Called for each change, in the order of the versions. */
  onChange(listener: (change: ClusterChange) => void): void {
    this.#listeners.push(listener)
  }

  /** Called after each reading, also one that found nothing, with whether it began anew. */
  onRead(listener: (isAnew: boolean) => void): void {
    this.#readListeners.push(listener)
  }

  /** Reads on by itself from now on. */
  follow(pollMs: number): void {
    this.#unlisten = this.#parts.notifier.listen([clusterTopic], () => this.#wakeUp.wake())
    this.#loop = createLoop({
      name: 'dispatch.cluster',
      notifier: this.#wakeUp,
      idleMs: pollMs,
      backoff: { baseMs: 50, maxMs: 2_000 },
      step: () => this.catchUp(),
    })
    this.#loop.events.on('failed', ({ error }) => this.#parts.onTrouble(error))
  }

  /** Looks soon, with or without a wake-up. */
  look(): void {
    this.#wakeUp.wake()
  }

  async stop(withinMs: number): Promise<void> {
    this.#unlisten?.()
    await this.#loop?.stop({ graceMs: withinMs })
  }

  /** Reads until it knows whatever was written before the call. */
  catchUp(): Promise<void> {
    if (this.#reading === null) {
      this.#reading = this.#read().finally(() => {
        this.#reading = null
      })
      return this.#reading
    }
    // The one under way may have passed already what the caller wants to see.
    const again = () => {
      this.#after = null
      return this.catchUp()
    }
    this.#after ??= this.#reading.then(again, again)
    return this.#after
  }

  find(kind: ClusterKind, key: string): Promise<ClusterRecord | undefined> {
    return inTime(findWithinMs, () => this.#parts.store.find(kind, key))
  }

  /** Writes in the order of the calls. The row's new version; null: it is another than the writer saw. */
  write(write: ClusterWrite): Promise<number | null> {
    return this.#writes.add(write)
  }

  /**
   * Puts a document into one row, whatever others do at the same time: `next` sees the row as it is and says what to
   * write (null removes it, undefined leaves it alone). Answers the version written, or undefined.
   */
  async change(
    kind: ClusterKind,
    key: string,
    next: (
      row: ClusterRow | undefined,
    ) => { readonly doc: unknown; readonly forMs: number | null } | undefined,
  ): Promise<number | undefined> {
    for (let tries = 0; tries < conflictTries; tries += 1) {
      const found = await this.find(kind, key)
      const wanted = next(found === undefined ? undefined : read(found))
      if (wanted === undefined) return undefined
      const doc = wanted.doc === null ? null : JSON.stringify(wanted.doc)
      const seen = found?.version ?? 0
      const version = await this.write({ kind, key, seen, doc, forMs: wanted.forMs })
      if (version !== null) return version
    }
    const what = `The cluster state's row of ${kind} "${key}"`
    throw new SignalboxError(
      'store_busy',
      `${what} changed ${conflictTries} times while it was being written; try again.`,
    )
  }

  async #read(): Promise<void> {
    const isAnew = await this.#readOn()
    this.#lastRead = this.#clock
    this.#isLoaded = true
    this.#loaded.resolve()
    for (const listener of this.#readListeners) this.#guarded(() => listener(isAnew))
  }

  /** Answers whether it began anew after it had read something. */
  async #readOn(): Promise<boolean> {
    const stretch = new Stretch()
    for (;;) {
      const page = await this.#page(this.#since)
      if (page.isReset || this.#since === 0) {
        await this.#readAnew(page, stretch)
        return page.isReset
      }
      for (const change of this.#changes(page)) {
        put(this.#rows, change)
        this.#tell(change)
        if (stretch.isOver) await stretch.pause()
      }
      this.#since = page.rows.at(-1)?.version ?? this.#since
      if (page.rows.length < pageSize) return false
    }
  }

  /** What starts anew is put in place when it is whole: half a fleet would look like the loss of the other half. */
  async #readAnew(first: ClusterPage, stretch: Stretch): Promise<void> {
    let fresh = emptyRows()
    let removed = new Set<string>()
    let since = 0
    // A process that read lately has missed no removal, so a missing row was lost.
    let isLoss = first.isReset && this.#awayMs < tombstoneMs / 2
    for (let page = first; ; page = await this.#page(since)) {
      if (page.isReset) {
        fresh = emptyRows()
        removed = new Set()
      }
      for (const change of this.#changes(page)) {
        put(fresh, change)
        if (change.row === undefined) removed.add(nameOf(change))
        if (stretch.isOver) await stretch.pause()
      }
      since = page.rows.at(-1)?.version ?? (page.isReset ? 0 : since)
      if (page.rows.length >= pageSize) continue
      if (!isLoss || !(await this.#putBack(fresh, removed))) break
      isLoss = false
    }
    this.#since = since
    await this.#replace(fresh, stretch)
  }

  /** For how long nothing was read, at most: a process that slept may not know it, and a store's clock may be set. */
  get #awayMs(): number {
    const { now, at } = this.#clock
    return Math.max(Math.abs(now - this.#lastRead.now), at - this.#lastRead.at)
  }

  /** Writes what the store has lost; false: nothing. */
  async #putBack(fresh: Rows, removed: ReadonlySet<string>): Promise<boolean> {
    const writes: Promise<number | null>[] = []
    for (const kind of common) {
      for (const [key, { doc, expiresAt }] of this.rows(kind)) {
        if (fresh.get(kind)!.has(key) || removed.has(nameOf({ kind, key }))) continue
        const forMs = expiresAt === null ? null : Math.round(expiresAt - this.storeNow)
        if (forMs !== null && forMs <= 0) continue
        writes.push(this.write({ kind, key, seen: 0, doc: JSON.stringify(doc), forMs }))
      }
    }
    // Too late: another server was faster, and its row is read as any other.
    await Promise.all(writes)
    return writes.length > 0
  }

  async #page(since: number): Promise<ClusterPage> {
    const page = await inTime(readWithinMs, () => this.#parts.store.read(since, pageSize))
    this.#clock = { now: page.now, at: this.#parts.monotonicMs() }
    return page
  }

  *#changes({ rows }: ClusterPage): Generator<ClusterChange> {
    for (const row of rows) {
      try {
        yield { ...row, row: row.doc === null ? undefined : read(row) }
      } catch (error) {
        // Another program wrote it. The other rows still count.
        this.#parts.onTrouble(error)
      }
    }
  }

  async #replace(fresh: Rows, stretch: Stretch): Promise<void> {
    const known = this.#rows
    const isAnew = true
    this.#rows = fresh
    for (const kind of kinds) {
      const now = fresh.get(kind)!
      for (const [key, { version }] of known.get(kind)!) {
        if (now.has(key)) continue
        // Later than what is gone, also where a store that lost much counts from below again.
        this.#tell({ kind, key, version: Math.max(this.#since, version + 1), row: undefined, isAnew })
        if (stretch.isOver) await stretch.pause()
      }
      for (const [key, row] of now) {
        this.#tell({ kind, key, version: row.version, row, isAnew })
        if (stretch.isOver) await stretch.pause()
      }
    }
  }

  #tell(change: ClusterChange): void {
    for (const listener of this.#listeners) this.#guarded(() => listener(change))
  }

  /** A listener that throws must not keep the others from a row. */
  #guarded(listener: () => void): void {
    try {
      listener()
    } catch (error) {
      this.#parts.onTrouble(error)
    }
  }
}

function put(rows: Rows, { kind, key, row }: ClusterChange): void {
  const those = rows.get(kind)
  if (row === undefined) those?.delete(key)
  else those?.set(key, row)
}

/** No kind has a space in it. */
function nameOf({ kind, key }: { readonly kind: ClusterKind; readonly key: string }): string {
  return `${kind} ${key}`
}

function read({ version, doc, expiresAt }: ClusterRecord): ClusterRow {
  return { version, doc: JSON.parse(doc!) as unknown, expiresAt }
}

function emptyRows(): Rows {
  return new Map(kinds.map((kind) => [kind, new Map<string, ClusterRow>()]))
}
