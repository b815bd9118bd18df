/**
 * The line of those who wait with one demand: by priority, then fairly between tenants, then by age. Waiting lifts a
 * task by one priority every `ageMs`, so that no stream of urgent ones can hold it back for ever.
 *
 *   level 9 ─ tenants by pass ─ seats by age
 *   level 8 ─ …          ▲ after ageMs
 */

import type { TaskEntry } from '../registry/task-entry.ts'
import type { Tenant } from './tenants.ts'

/** Priorities go from 0 to this. */
export const topLevel = 9

/** Lifted per look at most, so that a look stays short; the others are lifted at the next. */
const maxLifts = 256

/** A place in the line: linked with its neighbours of the same tenant, and of the same level in the order they came. */
export interface WaitSeat {
  readonly task: TaskEntry
  readonly tenant: Tenant
  readonly since: number
  level: number
  /** Since when it is on this level. */
  levelSince: number
  row: TenantRow | null
  earlierOfRow: WaitSeat | null
  laterOfRow: WaitSeat | null
  earlier: WaitSeat | null
  later: WaitSeat | null
}

interface TenantRow {
  readonly tenant: Tenant
  /** The pass it was placed in the heap with: passes only grow, so the heap is mended when it comes to the top. */
  pass: number
  first: WaitSeat | null
  last: WaitSeat | null
}

class Level {
  readonly rows = new Map<string, TenantRow>()
  readonly heap: TenantRow[] = []
  first: WaitSeat | null = null
  last: WaitSeat | null = null

  add(seat: WaitSeat): void {
    let row = this.rows.get(seat.tenant.name)
    if (row === undefined || row.tenant !== seat.tenant) {
      row = { tenant: seat.tenant, pass: seat.tenant.pass, first: null, last: null }
      this.rows.set(seat.tenant.name, row)
      this.heap.push(row)
      this.#rise(this.heap.length - 1)
    }
    seat.row = row
    seat.earlierOfRow = row.last
    seat.laterOfRow = null
    if (row.last === null) row.first = seat
    else row.last.laterOfRow = seat
    row.last = seat
    seat.earlier = this.last
    seat.later = null
    if (this.last === null) this.first = seat
    else this.last.later = seat
    this.last = seat
  }

  remove(seat: WaitSeat): void {
    const row = seat.row!
    if (seat.earlierOfRow === null) row.first = seat.laterOfRow
    else seat.earlierOfRow.laterOfRow = seat.laterOfRow
    if (seat.laterOfRow === null) row.last = seat.earlierOfRow
    else seat.laterOfRow.earlierOfRow = seat.earlierOfRow
    if (seat.earlier === null) this.first = seat.later
    else seat.earlier.later = seat.later
    if (seat.later === null) this.last = seat.earlier
    else seat.later.earlier = seat.earlier
    seat.row = null
  }

  /** The first seat of the tenant with the lowest pass. */
  peek(): WaitSeat | null {
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
    let place = from
    while (place > 0) {
      const above = (place - 1) >> 1
      if (this.heap[above]!.pass <= this.heap[place]!.pass) return
      this.#swap(above, place)
      place = above
    }
  }

  #sink(from: number): void {
    let place = from
    for (;;) {
      let below = place * 2 + 1
      if (below >= this.heap.length) return
      if (below + 1 < this.heap.length && this.heap[below + 1]!.pass < this.heap[below]!.pass) below += 1
      if (this.heap[place]!.pass <= this.heap[below]!.pass) return
      this.#swap(place, below)
      place = below
    }
  }

  #swap(a: number, b: number): void {
    const row = this.heap[a]!
    this.heap[a] = this.heap[b]!
    this.heap[b] = row
  }
}

/** A line of waiting tasks. */
export class WaitLine {
  #levels: (Level | undefined)[] = []
  size = 0

  add(task: TaskEntry, tenant: Tenant, now: number): WaitSeat {
    const level = Math.min(topLevel, Math.max(0, task.spec.priority | 0))
    const seat: WaitSeat = {
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
    this.#level(level).add(seat)
    this.size += 1
    return seat
  }

  remove(seat: WaitSeat): void {
    this.#level(seat.level).remove(seat)
    this.size -= 1
    if (this.size === 0) this.#levels = []
  }

  /** Whose turn it is; null when nobody waits. */
  peek(now: number, ageMs: number): WaitSeat | null {
    this.#age(now, ageMs)
    for (let level = topLevel; level >= 0; level -= 1) {
      const seat = this.#levels[level]?.peek() ?? null
      if (seat !== null) return seat
    }
    return null
  }

  /** Whose turn comes after all others', by level and age; null when nobody waits. */
  peekLast(now: number, ageMs: number): WaitSeat | null {
    this.#age(now, ageMs)
    for (const level of this.#levels) if (level?.last) return level.last
    return null
  }

  #age(now: number, ageMs: number): void {
    let lifts = maxLifts
    for (let number = topLevel - 1; number >= 0; number -= 1) {
      const level = this.#levels[number]
      if (level === undefined) continue
      for (let seat = level.first; seat !== null && lifts > 0; seat = level.first) {
        const steps = Math.floor((now - seat.levelSince) / ageMs)
        if (steps < 1) break
        level.remove(seat)
        seat.level = Math.min(topLevel, number + steps)
        seat.levelSince += steps * ageMs
        this.#level(seat.level).add(seat)
        lifts -= 1
      }
    }
  }

  #level(number: number): Level {
    this.#levels[number] ??= new Level()
    return this.#levels[number]
  }
}
