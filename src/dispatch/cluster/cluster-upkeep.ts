/**
 * Removes rows without an owner from the cluster state: dead servers and their nodes, drains of nodes that are gone,
 * and demands that have expired. The first of the servers does it. Each write is conditional on the version that was
 * read, so a row that came back meanwhile stays.
 */

import { inTime } from '../time-limits.ts'
import type { DrainDoc } from './cluster-settings.ts'
import type { ClusterRow } from './cluster-state.ts'
import { type ClusterKind, type ClusterWrite, tombstoneMs } from './cluster-store.ts'
import type { NodeDoc } from './node-ownership.ts'
import type { Sharing } from './server-sharing.ts'

/** Rows that seem to have no owner stay for this long. */
const patienceMs = 60_000
/** How long a demand stays beyond its time: a server that still holds such tasks renews it. */
const demandPatienceMs = 3_600_000
const pruneEveryMs = 60_000
const pruneWithinMs = 10_000
const biteSize = 200

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

  /** Looks once; to be called every few seconds. */
  async look(): Promise<void> {
    const { cluster, store, servers, monotonicMs } = this.#sharing
    if (!cluster.isLoaded) return
    const orphans = new Map<string, number>()
    const writes: ClusterWrite[] = []
    for (const [kind, key, row] of this.#ownerless()) {
      const name = `${kind} ${key} ${row.version}`
      const since = this.#orphans.get(name) ?? monotonicMs()
      orphans.set(name, since)
      if (monotonicMs() - since < patienceMs || writes.length >= biteSize) continue
      writes.push({ kind, key, seen: row.version, doc: null, forMs: null })
    }
    this.#orphans = orphans
    await Promise.all(writes.map((write) => cluster.write(write)))
    if (!servers.isFirst || monotonicMs() - this.#prunedAt < pruneEveryMs) return
    this.#prunedAt = monotonicMs()
    const prune = () => inTime(pruneWithinMs, () => store.prune(biteSize, tombstoneMs))
    while ((await prune()) >= biteSize);
  }

  *#ownerless(): Generator<readonly [ClusterKind, string, ClusterRow]> {
    const { cluster, servers, ownNodes, serverId } = this.#sharing
    // Its own that came to nothing are each server's own affair.
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
      if (row.expiresAt !== null && row.expiresAt + demandPatienceMs < cluster.readNow)
        yield ['demand', key, row]
    }
  }
}
