import type { Contention } from '../contention/index.ts'
import type { Jobs } from './jobs.ts'
import type { JobStore } from './store.ts'

/** What the room is made of; the caller hands it in from a backend. */
export interface JobsParts {
  readonly store: JobStore
  readonly bell: JobsBell
  /**
   * The service of the same queues that this one stands in for, perhaps for one request: what is added here and falls
   * due later is told of by that one, which lives longer. @default it tells by itself
   */
  readonly beside?: Jobs
  /** For Signalbox's own rooms: queues named `signalbox.…` may be added to and worked on, and are counted. @default false */
  readonly reserved?: boolean
  /** Learns how long workers wait for the store, and jobs for a place among those that run. @default nobody does */
  readonly contention?: Contention
}

/** The part of a backend's bell that jobs ring and hear. */
export interface JobsBell {
  ring(topic: string): void
  listen(topics: readonly string[], heard: () => void): () => void
}

/** The topic of a queue's news. */
export function queueTopic(queue: string): string {
  return `jobs:${queue}`
}

/** The topic of wishes to cancel. */
export const cancelTopic = 'jobs.cancel'
