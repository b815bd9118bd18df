import type { JobRecord, QueueStats } from '../../src/jobs/index.ts'

/**
 * A record as the walk compares it: everything that the contract decides, and instants only as far as two clocks can
 * agree on them. Left out are fields that the contract leaves open: the worker, start and error of a job that waits or
 * that an operator cancelled, and the later end of a job whose lease expired without a reclaim.
 */
export function viewOf(record: JobRecord, { start, lapsed }: { start: number; lapsed: boolean }): unknown {
  const {
    id,
    queue,
    kind,
    payload,
    priority,
    uniqueKey,
    state,
    attempt,
    maxAttempts,
    handBackCount,
    snoozeCount,
  } = record
  const { backoff, timeoutMs, meta, cancelRequested, cancelIgnored, runAt } = record
  const always = {
    id,
    queue,
    kind,
    payload,
    priority,
    uniqueKey,
    state,
    attempt,
    maxAttempts,
    handBackCount,
    snoozeCount,
  }
  const settings = { backoff, timeoutMs, meta, cancelRequested, cancelIgnored, runAt: instant(runAt, start) }
  const ended = state === 'completed' || state === 'dead' || state === 'cancelled'
  if (lapsed && state !== 'running' && state !== 'completed') return { ...always, ...settings }
  return {
    ...always,
    ...settings,
    created: record.createdAt >= start - 60_000,
    finished: record.finishedAt !== null,
    leased: record.leaseEndsAt !== null,
    ...((ended || state === 'running') && { workerId: record.workerId, started: record.startedAt !== null }),
    ...(ended && { result: record.result }),
    ...((state === 'completed' || state === 'dead') && { error: record.error }),
  }
}

/** Instants from a test are compared exactly, instants from a store's clock as near or far. */
export function instant(at: number, start: number): number | 'near' | 'far' {
  if (at < start - 1_000) return at
  return at > start + 100_000_000 ? 'far' : 'near'
}

/** The counts in order, without queues that have neither jobs nor limits, which an engine may show or not. */
export function viewStats(stats: readonly QueueStats[]): readonly unknown[] {
  return stats
    .filter(
      ({ scheduled, ready, waiting, running, dead, limits }) =>
        limits !== null || scheduled + ready + waiting + running + dead > 0,
    )
    .toSorted((a, b) => (a.queue < b.queue ? -1 : 1))
    .map(({ oldestReadyAt, ...counts }) => ({ ...counts, hasReady: oldestReadyAt !== null }))
}
