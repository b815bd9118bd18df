/** One cluster state, with its writers and its readers. */
import assert from 'node:assert/strict'
import type {
  ClusterKind,
  ClusterPage,
  ClusterRecord,
  ClusterStore,
  ClusterWrite,
} from '../../../src/dispatch/cluster/cluster-store.ts'
import { until } from '../locks/stage.ts'
import type { ClusterStores } from './opening.ts'

export { until }

/** More rows than any test writes. */
export const plenty = 1_000

export class ClusterStage {
  readonly store: ClusterStore

  constructor({ cluster }: ClusterStores) {
    this.store = cluster
  }

  /** One write; returns its version, or null when it was outdated. */
  async put(key: string, options: Partial<ClusterWrite> = {}): Promise<number | null> {
    const [version, ...rest] = await this.store.write([aWrite(key, options)])
    assert.ok(version !== undefined && rest.length === 0, 'one answer to one write')
    if (version !== null) assert.ok(Number.isSafeInteger(version) && version > 0, `${version} is a version`)
    return version
  }

  /** One write that must succeed. */
  async made(key: string, options?: Partial<ClusterWrite>): Promise<number> {
    const version = await this.put(key, options)
    assert.ok(version !== null, `${JSON.stringify(key)} is written`)
    return version
  }

  /** Several writes that must succeed, in one step. */
  async all(writes: readonly ClusterWrite[]): Promise<readonly number[]> {
    const versions = await this.store.write(writes)
    assert.equal(versions.length, writes.length)
    return versions.map((version) => {
      assert.ok(version !== null)
      return version
    })
  }

  find(key: string, kind: ClusterKind = 'node'): Promise<ClusterRecord | undefined> {
    return this.store.find(kind, key)
  }

  /** All rows of the cluster state, removed rows too. */
  async allRows(): Promise<readonly ClusterRecord[]> {
    const { rows, isReset } = await this.store.read(0, plenty)
    assert.equal(isReset, false)
    return rows
  }

  async now(): Promise<number> {
    return (await this.store.read(0, 1)).now
  }

  /** Waits until the store's clock moves, so that everything before it is in the past. */
  async tick(): Promise<void> {
    const before = await this.now()
    await until("the store's clock moves", async () => (await this.now()) > before)
  }

  /** Forgets all rows that were removed before. */
  async forgetRemoved(): Promise<number> {
    await this.tick()
    return this.store.prune(plenty, 0)
  }
}

/** Reads the cluster state as a server does, and checks each page against the promises of all pages. */
export class Follower {
  readonly rows: Map<string, ClusterRecord> = new Map()
  readonly seen: ClusterRecord[] = []
  since: number = 0
  resetCount: number = 0
  readonly #store: ClusterStore
  readonly #limit: number

  constructor(store: ClusterStore, limit: number = plenty) {
    this.#store = store
    this.#limit = limit
  }

  /** Reads page after page to the end. */
  async catchUp(): Promise<void> {
    for (let pageCount = 0; (await this.page()).rows.length >= this.#limit; pageCount++)
      assert.ok(pageCount < 10_000, 'the pages come to an end')
  }

  async page(): Promise<ClusterPage> {
    const page = await this.#store.read(this.since, this.#limit)
    if (page.isReset) {
      this.resetCount++
      this.since = 0
      this.rows.clear()
    }
    for (const row of page.rows) {
      assert.ok(row.version > this.since, `${row.version} comes after ${this.since}`)
      this.since = row.version
      this.seen.push(row)
      const name = `${row.kind} ${row.key}`
      if (row.doc === null) this.rows.delete(name)
      else this.rows.set(name, row)
    }
    return page
  }

  /** The present rows, in the order of their versions. */
  live(): readonly ClusterRecord[] {
    return [...this.rows.values()].toSorted((a, b) => a.version - b.version)
  }
}

export function aWrite(key: string, options: Partial<ClusterWrite> = {}): ClusterWrite {
  return { kind: 'node', key, seen: 0, doc: '{}', forMs: null, ...options }
}

export function keysOf(rows: readonly ClusterRecord[]): readonly string[] {
  return rows.map(({ key }) => key)
}

export function isThere({ doc }: ClusterRecord): boolean {
  return doc !== null
}
