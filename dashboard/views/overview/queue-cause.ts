import type { WireWorker } from '../../../src/http/client/index.ts'

/** Why a queue is behind, as far as its workers tell. */
export type QueueCause =
  | { readonly kind: 'noWorker' }
  | { readonly kind: 'allQuiet'; readonly count: number }
  | { readonly kind: 'allBusy'; readonly count: number }
  | { readonly kind: 'atLimit'; readonly count: number }
  | { readonly kind: 'worked'; readonly count: number }

export interface QueueStanding {
  readonly running: number
  readonly limits: { readonly concurrency: number | null } | null
}

/** `workers`: those that take jobs of the queue. */
export function causeOf(workers: readonly WireWorker[], queue: QueueStanding | undefined): QueueCause {
  const live = workers.filter(({ state }) => state !== 'gone')
  if (live.length === 0) return { kind: 'noWorker' }
  const claiming = live.filter(({ state }) => state === 'running')
  if (claiming.length === 0) return { kind: 'allQuiet', count: live.length }
  const limit = queue?.limits?.concurrency ?? null
  if (limit !== null && queue!.running >= limit) return { kind: 'atLimit', count: limit }
  const isFull = ({ runningCount, concurrency }: WireWorker) =>
    runningCount !== null && concurrency !== null && runningCount >= concurrency
  const count = claiming.length
  return claiming.every(isFull) ? { kind: 'allBusy', count } : { kind: 'worked', count }
}
