import type { JobStore } from './store.ts'

/** What the room is made of; the caller hands it in from a backend. */
export interface JobsParts {
  readonly store: JobStore
  readonly bell: JobsBell
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
