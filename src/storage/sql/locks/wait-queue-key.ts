import { hash } from 'node:crypto'
import type { LockKey } from '../../../locks/index.ts'

/** One wait queue of one namespace, and where its rows are found. */
export interface WaitQueueName extends LockKey {
  readonly namespace: string
  /** SHA-256 of the three names, which together are too wide for an index. */
  readonly queueKey: string
}

/** No two wait queues have the same key: JSON keeps the names apart. */
export function nameWaitQueue(namespace: string, { operation, resource }: LockKey): WaitQueueName {
  const queueKey = hash('sha256', JSON.stringify([namespace, operation, resource]), 'base64url')
  return { namespace, operation, resource, queueKey }
}

/** How many counters of tokens there are; each is a row, so that grants of different resources seldom meet. */
export const shardCount = 64

/** All operations of a resource take their tokens from one counter. */
export function shardOf({ namespace, resource }: WaitQueueName): number {
  const digest = hash('sha256', JSON.stringify([namespace, resource]), 'hex')
  return Number.parseInt(digest.slice(0, 2), 16) % shardCount
}

/** How many waiting holders one look answers at most. */
export const maxWaitingHolders = 1_000
