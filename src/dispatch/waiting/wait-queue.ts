/**
 * The wait queue of one demand: by priority, then fairly between tenants, then by age. Waiting lifts a
 * task by one priority every `ageMs`, so that no stream of urgent ones can hold it back for ever.
 *
 *   level 9 ─ tenants by pass ─ entries by age
 *   level 8 ─ …          ▲ after ageMs
 */

import type { TaskEntry } from '../registry/task-entry.ts'
import type { Tenant } from './tenants.ts'

/** Priorities go from 0 to this. */
export const topLevel = 9

/** Lifted per look at most, so that a look stays short; the others are lifted at the next. */
const maxLifts = 256

/** An entry of the wait queue, linked with its neighbours of the same tenant, and of the same level in the order they came. */
export interface WaitEntry {
  readonly task: TaskEntry
  readonly tenant: Tenant
  readonly since: number
  level: number
  /** Since when it is on this level. */
  levelSince: number
  row: TenantRow | null
  earlierOfRow: WaitEntry | null
  laterOfRow: WaitEntry | null
  earlier: WaitEntry | null
  later: WaitEntry | null
}

interface TenantRow {
  readonly tenant: Tenant
  /** The pass it was placed in the heap with: passes only grow, so the heap is mended when it comes to the top. */
  pass: number
  first: WaitEntry | null
  last: WaitEntry | null
}

class Level {
  readonly rows = new Map<string, TenantRow>()
  readonly heap: TenantRow[] = []
  first: WaitEntry | null = null
  last: WaitEntry | null = null

  add(entry: WaitEntry): void {
    let row = this.rows.get(entry.tenant.name)
    if (row === undefined || row.tenant !== entry.tenant) {
      row = { tenant: entry.tenant, pass: entry.tenant.pass, first: null, last: null }
      this.rows.set(entry.tenant.name, row)
      this.heap.push(row)
      this.#rise(this.heap.length - 1)
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
      const row = this.heap[0]
      if (row === undefined) return null
      if (row.first === null) {
        this.#drop(row)
      } else if (row.pass !== row.tenant.pass) {
        row.pass = row.tenant.pass
        this.#sink(0)
      } else {
        return row.first
      }
    }
  }

  #drop(row: TenantRow): void {
    const last = this.heap.pop()!
    if (last !== row) {
      this.heap[0] = last
      this.#sink(0)
    }
    if (this.rows.get(row.tenant.name) === row) this.rows.delete(row.tenant.name)
  }

  #rise(from: number): void {
    let position = from
    while (position > 0) {
      const above = (position - 1) >> 1
      if (this.heap[above]!.pass <= this.heap[position]!.pass) return
      this.#swap(above, position)
      position = above
    }
  }

  #sink(from: number): void {
    let position = from
    for (;;) {
      let below = position * 2 + 1
      if (below >= this.heap.length) return
      if (below + 1 < this.heap.length && this.heap[below + 1]!.pass < this.heap[below]!.pass) below += 1
      if (this.heap[position]!.pass <= this.heap[below]!.pass) return
      this.#swap(position, below)
      position = below
    }
  }

  #swap(a: number, b: number): void {
    const row = this.heap[a]!
    this.heap[a] = this.heap[b]!
    this.heap[b] = row
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
