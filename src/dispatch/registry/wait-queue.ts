/**
 * The wait queue of one demand: by priority, then fairly between tenants, then by age. A waiting task rises by one
 * priority every `ageMs`, so that a stream of urgent tasks cannot delay it for ever.
 *
 *   level 9 ─ tenants by pass ─ entries by age
 *   level 8 ─ …          ▲ after ageMs
 */

import { type HeapItem, PositionHeap } from '../../core/position-heap.ts'
import type { TaskEntry } from './task-entry.ts'

/** Priorities go from 0 to this. */
const topLevel = 9

/** How many tasks one call lifts to a higher level at most, so that it stays short; the next call lifts the others. */
const maxLifts = 256

/** An entry of the wait queue. It is linked with its neighbours of the same tenant and of the same level. */
export interface WaitEntry {
  readonly task: TaskEntry
  readonly tenant: Tenant
  readonly since: number
  level: number
  /** When it reached this level. */
  levelSince: number
  row: TenantRow | null
  earlierOfRow: WaitEntry | null
  laterOfRow: WaitEntry | null
  earlier: WaitEntry | null
  later: WaitEntry | null
}

/**
 * `at` is the pass with which the row entered the heap. Passes only grow, so a row is moved when it reaches the top.
 */
interface TenantRow extends HeapItem {
  readonly tenant: Tenant
  first: WaitEntry | null
  last: WaitEntry | null
}

class Level {
  readonly rows = new Map<string, TenantRow>()
  readonly heap = new PositionHeap<TenantRow>()
  first: WaitEntry | null = null
  last: WaitEntry | null = null

  add(entry: WaitEntry): void {
    let row = this.rows.get(entry.tenant.name)
    if (row === undefined || row.tenant !== entry.tenant) {
      row = { tenant: entry.tenant, at: 0, order: 0, position: -1, first: null, last: null }
      this.rows.set(entry.tenant.name, row)
      this.heap.set(row, entry.tenant.pass)
    }
    entry.row = row
    entry.earlierOfRow = row.last
    entry.laterOfRow = null
    if (row.last === null) row.first = entry
    else row.last.laterOfRow = entry
    row.last = entry
    entry.earlier = this.last
    entry.later = null
    if (this.last === null) this.first = entry
    else this.last.later = entry
    this.last = entry
  }

  remove(entry: WaitEntry): void {
    const row = entry.row!
    if (entry.earlierOfRow === null) row.first = entry.laterOfRow
    else entry.earlierOfRow.laterOfRow = entry.laterOfRow
    if (entry.laterOfRow === null) row.last = entry.earlierOfRow
    else entry.laterOfRow.earlierOfRow = entry.earlierOfRow
    if (entry.earlier === null) this.first = entry.later
    else entry.earlier.later = entry.later
    if (entry.later === null) this.last = entry.earlier
    else entry.later.earlier = entry.earlier
    entry.row = null
  }

  /** The first entry of the tenant with the lowest pass. */
  peek(): WaitEntry | null {
    for (;;) {
      const row = this.heap.first
      if (row === undefined) return null
      if (row.first === null) {
        this.heap.clear(row)
        if (this.rows.get(row.tenant.name) === row) this.rows.delete(row.tenant.name)
      } else if (row.at !== row.tenant.pass) {
        this.heap.set(row, row.tenant.pass)
      } else {
        return row.first
      }
    }
  }
}

/** The tasks that wait with one demand. */
export class WaitQueue {
  #levels: (Level | undefined)[] = []
  size = 0

  add(task: TaskEntry, tenant: Tenant, now: number): WaitEntry {
    const level = Math.min(topLevel, Math.max(0, task.spec.priority | 0))
    const entry: WaitEntry = {
      task,
      tenant,
      since: now,
      level,
      levelSince: now,
      row: null,
      earlierOfRow: null,
      laterOfRow: null,
      earlier: null,
      later: null,
    }
    this.#level(level).add(entry)
    this.size += 1
    return entry
  }

  remove(entry: WaitEntry): void {
    this.#level(entry.level).remove(entry)
    this.size -= 1
    if (this.size === 0) this.#levels = []
  }

  /**
   * About when the oldest was submitted. It is not exact, because lifted tasks queue behind others of their new
   * level.
   */
  get oldestAt(): number {
    let oldest = Number.POSITIVE_INFINITY
    for (const level of this.#levels)
      oldest = Math.min(oldest, level?.first?.task.spec.submittedAt ?? Number.POSITIVE_INFINITY)
    return oldest
  }

  /** The next entry; null when no task waits. */
  peek(now: number, ageMs: number): WaitEntry | null {
    this.#age(now, ageMs)
    for (let level = topLevel; level >= 0; level -= 1) {
      const entry = this.#levels[level]?.peek() ?? null
      if (entry !== null) return entry
    }
    return null
  }

  /** The last entry by level and age; null when no task waits. */
  peekLast(now: number, ageMs: number): WaitEntry | null {
    this.#age(now, ageMs)
    for (const level of this.#levels) if (level?.last) return level.last
    return null
  }

  #age(now: number, ageMs: number): void {
    let lifts = maxLifts
    for (let number = topLevel - 1; number >= 0; number -= 1) {
      const level = this.#levels[number]
      if (level === undefined) continue
      for (let entry = level.first; entry !== null && lifts > 0; entry = level.first) {
        const steps = Math.floor((now - entry.levelSince) / ageMs)
        if (steps < 1) break
        level.remove(entry)
        entry.level = Math.min(topLevel, number + steps)
        entry.levelSince += steps * ageMs
        this.#level(entry.level).add(entry)
        lifts -= 1
      }
    }
  }

  #level(number: number): Level {
    this.#levels[number] ??= new Level()
    return this.#levels[number]
  }
}

/** A tenant that has waiting tasks, or was served so recently that its pass matters. */
export interface Tenant {
  readonly name: string
  pass: number
  waiting: number
}

/**
 * Stride scheduling between tenants: each tenant has a pass, and the tenant with the lowest pass is served next. Each
 * served task raises its tenant's pass by the slots that it took. A tenant that returns starts at the present pass, so
 * an idle time gives it no advantage.
 */
export class Tenants {
  readonly #tenants = new Map<string, Tenant>()
  /** The pass of the tenant that was served last. */
  #present = 0

  get size(): number {
    return this.#tenants.size
  }

  waitingOf(name: string): number {
    return this.#tenants.get(name)?.waiting ?? 0
  }

  /** A task of this tenant begins to wait. */
  enter(name: string): Tenant {
    let tenant = this.#tenants.get(name)
    if (tenant === undefined) {
      tenant = { name, pass: this.#present, waiting: 0 }
      this.#tenants.set(name, tenant)
    }
    if (tenant.waiting === 0) tenant.pass = Math.max(tenant.pass, this.#present)
    tenant.waiting += 1
    return tenant
  }

  /** A task of this tenant no longer waits. */
  leave(tenant: Tenant): void {
    tenant.waiting -= 1
    if (tenant.waiting === 0 && tenant.pass <= this.#present) this.#tenants.delete(tenant.name)
  }

  /** A waiting task of this tenant was served; `cost` is the slots it took. */
  serve(tenant: Tenant, cost: number): void {
    this.#present = Math.max(this.#present, tenant.pass)
    tenant.pass += cost
  }

  /** Forgets tenants whose pass no longer matters, checking at most `limit`. */
  sweep(limit: number): void {
    let left = limit
    for (const [name, tenant] of this.#tenants) {
      if (left === 0) return
      left -= 1
      this.#tenants.delete(name)
      // The others move to the end, so that the next sweep checks different ones.
      if (tenant.waiting > 0 || tenant.pass > this.#present) this.#tenants.set(name, tenant)
    }
  }
}
