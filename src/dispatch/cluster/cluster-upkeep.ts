/**
 * Takes off the board what nobody will take off any more: servers that died, their nodes, drains of nodes that are gone,
 * wishes that nobody had for long. Any server may; the first of them does. Each write is on the condition of what was
 * seen, so that whatever came back meanwhile stays.
 */

import { inTime } from '../in-time.ts'
import type { Board, BoardRow } from './cluster-state.ts'
import { type FleetKind, type FleetStore, type FleetWrite, tombstoneMs } from './fleet-store.ts'
import type { NodeDoc } from './node-ownership.ts'
import type { Holdings } from './own-nodes.ts'
import type { Roster } from './server-list.ts'
import type { DrainDoc } from './settings-state.ts'

/** What the upkeep looks at. */
export interface BoardUpkeepParts {
  readonly board: Board
  readonly store: Pick<FleetStore, 'prune'>
  readonly roster: Roster
  readonly holdings: Holdings
  readonly serverId: string
  readonly monotonicMs: () => number
}

/** What seems to be nobody's is left for so long. */
const patienceMs = 60_000
/** A wish stays so long beyond its time: the tasks that had it may be found, and its time renewed. */
const wishPatienceMs = 3_600_000
const pruneEveryMs = 60_000
const pruneWithinMs = 10_000
const biteSize = 200

/** Keeps the board small. */
export class BoardUpkeep {
  readonly #parts: BoardUpkeepParts
  /** Rows that seem to be nobody's, since when. */
  #orphans = new Map<string, number>()
  #prunedAt: number

  constructor(parts: BoardUpkeepParts) {
    this.#parts = parts
    this.#prunedAt = parts.monotonicMs()
  }

  /** Looks once; to be called every few seconds. */
  async look(): Promise<void> {
    const { board, store, roster, monotonicMs } = this.#parts
    if (!board.isLoaded) return
    const orphans = new Map<string, number>()
    const writes: FleetWrite[] = []
    for (const [kind, key, row] of this.#nobodys()) {
      const name = `${kind} ${key} ${row.version}`
      const since = this.#orphans.get(name) ?? monotonicMs()
      orphans.set(name, since)
      if (monotonicMs() - since < patienceMs || writes.length >= biteSize) continue
      writes.push({ kind, key, seen: row.version, doc: null, forMs: null })
    }
    this.#orphans = orphans
    await Promise.all(writes.map((write) => board.write(write)))
    if (!roster.isFirst || monotonicMs() - this.#prunedAt < pruneEveryMs) return
    this.#prunedAt = monotonicMs()
    const prune = () => inTime(pruneWithinMs, () => store.prune(biteSize, tombstoneMs))
    while ((await prune()) >= biteSize);
  }

  *#nobodys(): Generator<readonly [FleetKind, string, BoardRow]> {
    const { board, roster, holdings, serverId } = this.#parts
    // Its own that came to nothing are each server's own affair.
    for (const [key, row] of board.rows('node')) {
      const { owner } = row.doc as NodeDoc
      const isMine = owner === serverId
      if (isMine ? !holdings.has(key) : roster.isFirst && !roster.isLive(owner)) yield ['node', key, row]
    }
    if (!roster.isFirst) return
    for (const [key, row] of board.rows('server')) {
      if (key !== serverId && !roster.isLive(key)) yield ['server', key, row]
    }
    for (const [key, row] of board.rows('drain')) {
      const node = board.rows('node').get(key)?.doc as NodeDoc | undefined
      if (node?.epoch !== (row.doc as DrainDoc).epoch) yield ['drain', key, row]
    }
    for (const [key, row] of board.rows('demand')) {
      if (row.expiresAt !== null && row.expiresAt + wishPatienceMs < board.readNow) yield ['demand', key, row]
    }
  }
}
