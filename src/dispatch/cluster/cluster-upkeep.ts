/**
 * Removes rows without an owner from the cluster state: dead servers and their nodes, drains of nodes that are gone,
 * and expired demands. The first server does it. Each write is conditional on the version that was read, so a row that
 * was written again meanwhile stays.
 */

import { inTime } from '../time-limits.ts'
import type { DrainDoc } from './cluster-settings.ts'
import type { ClusterRow } from './cluster-state.ts'
import { type ClusterKind, type ClusterWrite, tombstoneMs } from './cluster-store.ts'
import type { NodeDoc } from './node-ownership.ts'
import type { Sharing } from './server-sharing.ts'

/** Rows that seem to have no owner stay for this long. */
const orphanGraceMs = 60_000
/** How long an expired demand stays: a server that still holds such tasks renews it. */
const demandGraceMs = 3_600_000
const pruneEveryMs = 60_000
const pruneWithinMs = 10_000
const batchSize = 200

/** Keeps the cluster state small. */
export class ClusterUpkeep {
  readonly #sharing: Sharing
  /** Rows that seem to have no owner, and since when. */
  #orphans = new Map<string, number>()
  #prunedAt: number

  constructor(sharing: Sharing) {
    this.#sharing = sharing
    this.#prunedAt = sharing.monotonicMs()
  }

  /** Checks all rows once. Call it every few seconds. */
  async run(): Promise<void> {
    const { cluster, store, servers, monotonicMs } = this.#sharing
    if (!cluster.isLoaded) return
    const orphans = new Map<string, number>()
    const writes: ClusterWrite[] = []
    for (const [kind, key, row] of this.#ownerless()) {
      const name = `${kind} ${key} ${row.version}`
      const since = this.#orphans.get(name) ?? monotonicMs()
      orphans.set(name, since)
      if (monotonicMs() - since < orphanGraceMs || writes.length >= batchSize) continue
      writes.push({ kind, key, seen: row.version, doc: null, forMs: null })
    }
    this.#orphans = orphans
    await Promise.all(writes.map((write) => cluster.write(write)))
    if (!servers.isFirst || monotonicMs() - this.#prunedAt < pruneEveryMs) return
    this.#prunedAt = monotonicMs()
    const prune = () => inTime(pruneWithinMs, () => store.prune(batchSize, tombstoneMs))
    while ((await prune()) >= batchSize);
  }

  *#ownerless(): Generator<readonly [ClusterKind, string, ClusterRow]> {
    const { cluster, servers, ownNodes, serverId } = this.#sharing
    // Each server removes its own rows of nodes that it no longer holds.
    for (const [key, row] of cluster.rows('node')) {
      const { owner } = row.doc as NodeDoc
      const isMine = owner === serverId
      if (isMine ? !ownNodes.has(key) : servers.isFirst && !servers.isLive(owner)) yield ['node', key, row]
    }
    if (!servers.isFirst) return
    for (const [key, row] of cluster.rows('server')) {
      if (key !== serverId && !servers.isLive(key)) yield ['server', key, row]
    }
    for (const [key, row] of cluster.rows('drain')) {
      const node = cluster.rows('node').get(key)?.doc as NodeDoc | undefined
      if (node?.epoch !== (row.doc as DrainDoc).epoch) yield ['drain', key, row]
    }
    for (const [key, row] of cluster.rows('demand')) {
      if (row.expiresAt !== null && row.expiresAt + demandGraceMs < cluster.readNow)
        yield ['demand', key, row]
    }
  }
}
