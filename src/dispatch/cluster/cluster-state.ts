/**
 * The cluster state as this process knows it. It reads new rows, keeps all rows, and calls its listeners. Wake-ups
 * start a reading, and polling finds the changes that they missed. The rows may be slightly old, so each write is
 * conditional on the version that the writer saw, and the store decides.
 */

import { Batcher } from '../../core/batcher.ts'
import { SignalboxError } from '../../core/errors.ts'
import { createLoop, type Loop } from '../../core/loop.ts'
import { createNotifier, type Notifier } from '../../core/notifier.ts'
import type { JobsNotifier } from '../../jobs/index.ts'
import { inTime, TimeSlice } from '../time-limits.ts'
import {
  type ClusterKind,
  type ClusterPage,
  type ClusterRecord,
  type ClusterStore,
  type ClusterWrite,
  clusterTopic,
  tombstoneMs,
} from './cluster-store.ts'

/** A row with its decoded document. */
export interface ClusterRow {
  readonly version: number
  readonly doc: unknown
  /** By the store's clock. */
  readonly expiresAt: number | null
}

/** The change of a row: it was written, or (without `row`) removed. */
export interface ClusterChange {
  readonly kind: ClusterKind
  readonly key: string
  readonly version: number
  readonly row: ClusterRow | undefined
  /** The cluster state was read from the beginning: earlier versions may no longer be valid. */
  readonly isAnew?: boolean
}

/** The parts of the cluster state. */
export interface ClusterStateParts {
  readonly store: ClusterStore
  readonly notifier: JobsNotifier
  readonly monotonicMs: () => number
  readonly onError: (error: unknown) => void
}

type Rows = Map<ClusterKind, Map<string, ClusterRow>>

const kinds = ['server', 'node', 'demand', 'pool', 'cordon', 'drain'] as const
/** Kinds of rows without an owner. If the store loses such rows, every server that still has them writes them again. */
const common = ['demand', 'pool', 'cordon', 'drain'] as const
const pageSize = 500
const readWithinMs = 10_000
const findWithinMs = 5_000
/** The most writes of one batch, and its time limit. */
const maxWrites = 200
const writeWithinMs = 5_000
const conflictTries = 8

/** Reads and keeps the cluster state. */
export class ClusterState {
  readonly #parts: ClusterStateParts
  /** Batches writes: after a restart, all nodes of a fleet register at once. */
  readonly #writes: Batcher<ClusterWrite, number | null>
  readonly #wakeUp: Notifier = createNotifier()
  readonly #listeners: ((change: ClusterChange) => void)[] = []
  readonly #readListeners: ((isAnew: boolean) => void)[] = []
  readonly #loaded = Promise.withResolvers<void>()
  #rows: Rows = emptyRows()
  #since = 0
  #isLoaded = false
  /** The end of the last complete reading, by the store's clock (`now`) and by this process's clock (`at`). */
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

  /** Resolves after the first complete reading. */
  get loaded(): Promise<void> {
    return this.#loaded.promise
  }

  get isLoaded(): boolean {
    return this.#isLoaded
  }

  /**
   * The version up to which it has read. A row that was written with this version or before, and is not here, no longer
   * exists.
   */
  get readVersion(): number {
    return this.#since
  }

  /** The store's clock at the last reading. Rows that expired before it count as expired. */
  get readNow(): number {
    return this.#clock.now
  }

  /** The approximate present time of the store's clock. */
  get storeNow(): number {
    return this.#clock.now + this.#parts.monotonicMs() - this.#clock.at
  }

  rows(kind: ClusterKind): ReadonlyMap<string, ClusterRow> {
    return this.#rows.get(kind)!
  }

  /** Adds a listener for each change, in the order of the versions. */
  onChange(listener: (change: ClusterChange) => void): void {
    this.#listeners.push(listener)
  }

  /** Adds a listener for each reading, even without changes. `isAnew`: it read from the beginning. */
  onRead(listener: (isAnew: boolean) => void): void {
    this.#readListeners.push(listener)
  }

  /** Begins to read continuously. */
  follow(pollMs: number): void {
    this.#unlisten = this.#parts.notifier.listen([clusterTopic], () => this.#wakeUp.wake())
    this.#loop = createLoop({
      name: 'dispatch.cluster',
      notifier: this.#wakeUp,
      idleMs: pollMs,
      backoff: { baseMs: 50, maxMs: 2_000 },
      step: () => this.catchUp(),
    })
    this.#loop.events.on('failed', ({ error }) => this.#parts.onError(error))
  }

  /** Reads soon, without a wake-up. */
  look(): void {
    this.#wakeUp.wake()
  }

  async stop(withinMs: number): Promise<void> {
    this.#unlisten?.()
    await this.#loop?.stop({ graceMs: withinMs })
  }

  /** Reads everything that was written before the call. */
  catchUp(): Promise<void> {
    if (this.#reading === null) {
      this.#reading = this.#read().finally(() => {
        this.#reading = null
      })
      return this.#reading
    }
    // The running reading may already have passed the row that the caller needs.
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

  /**
   * Writes in the order of the calls. Answers the row's new version; null: the row no longer has the version `seen`.
   */
  write(write: ClusterWrite): Promise<number | null> {
    return this.#writes.add(write)
  }

  /**
   * Changes one row, even if other servers change it at the same time. `next` gets the present row and returns the new
   * document (null removes the row, undefined leaves it unchanged). Answers the written version, or undefined.
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
    const isAnew = await this.#readNew()
    this.#lastRead = this.#clock
    this.#isLoaded = true
    this.#loaded.resolve()
    for (const listener of this.#readListeners) this.#runListener(() => listener(isAnew))
  }

  /** Reads all new rows. Answers whether it had to begin again after an earlier reading. */
  async #readNew(): Promise<boolean> {
    const slice = new TimeSlice()
    for (;;) {
      const page = await this.#page(this.#since)
      if (page.isReset || this.#since === 0) {
        await this.#readAnew(page, slice)
        return page.isReset
      }
      for (const change of this.#changes(page)) {
        put(this.#rows, change)
        this.#notify(change)
        if (slice.isOver) await slice.pause()
      }
      this.#since = page.rows.at(-1)?.version ?? this.#since
      if (page.rows.length < pageSize) return false
    }
  }

  /** Reads all rows and then replaces the old ones at once: half a fleet would look like the loss of the other half. */
  async #readAnew(first: ClusterPage, slice: TimeSlice): Promise<void> {
    let fresh = emptyRows()
    let removed = new Set<string>()
    let since = 0
    // A process that has read recently has missed no removal, so the store lost the missing rows.
    let isLoss = first.isReset && this.#awayMs < tombstoneMs / 2
    for (let page = first; ; page = await this.#page(since)) {
      if (page.isReset) {
        fresh = emptyRows()
        removed = new Set()
      }
      for (const change of this.#changes(page)) {
        put(fresh, change)
        if (change.row === undefined) removed.add(nameOf(change))
        if (slice.isOver) await slice.pause()
      }
      since = page.rows.at(-1)?.version ?? (page.isReset ? 0 : since)
      if (page.rows.length >= pageSize) continue
      if (!isLoss || !(await this.#putBack(fresh, removed))) break
      isLoss = false
    }
    this.#since = since
    await this.#replace(fresh, slice)
  }

  /** The longest possible time since the last reading. The process may have slept, and the store's clock may be set. */
  get #awayMs(): number {
    const { now, at } = this.#clock
    return Math.max(Math.abs(now - this.#lastRead.now), at - this.#lastRead.at)
  }

  /** Writes the rows that the store lost. False: it lost none. */
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
    // A write that fails was too late: another server wrote the row, and this process reads it.
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
        // Another program wrote this row. The other rows are still valid.
        this.#parts.onError(error)
      }
    }
  }

  async #replace(fresh: Rows, slice: TimeSlice): Promise<void> {
    const known = this.#rows
    const isAnew = true
    this.#rows = fresh
    for (const kind of kinds) {
      const now = fresh.get(kind)!
      for (const [key, { version }] of known.get(kind)!) {
        if (now.has(key)) continue
        // The version must be higher than the lost row's, even if the store counts from a lower version again.
        this.#notify({ kind, key, version: Math.max(this.#since, version + 1), row: undefined, isAnew })
        if (slice.isOver) await slice.pause()
      }
      for (const [key, row] of now) {
        this.#notify({ kind, key, version: row.version, row, isAnew })
        if (slice.isOver) await slice.pause()
      }
    }
  }

  #notify(change: ClusterChange): void {
    for (const listener of this.#listeners) this.#runListener(() => listener(change))
  }

  /** An error of one listener must not stop the others. */
  #runListener(listener: () => void): void {
    try {
      listener()
    } catch (error) {
      this.#parts.onError(error)
    }
  }
}

function put(rows: Rows, { kind, key, row }: ClusterChange): void {
  const rowsOfKind = rows.get(kind)
  if (row === undefined) rowsOfKind?.delete(key)
  else rowsOfKind?.set(key, row)
}

/** A unique name, because no kind contains a space. */
function nameOf({ kind, key }: { readonly kind: ClusterKind; readonly key: string }): string {
  return `${kind} ${key}`
}

function read({ version, doc, expiresAt }: ClusterRecord): ClusterRow {
  return { version, doc: JSON.parse(doc!) as unknown, expiresAt }
}

function emptyRows(): Rows {
  return new Map(kinds.map((kind) => [kind, new Map<string, ClusterRow>()]))
}
