import type { Duration } from '../../core/duration.ts'
import type { ScalingBound } from './decide-scaling.ts'

/** What is to be scaled: the workers of a queue, or the nodes of a service. One of the two. */
export interface ScalingRequest {
  readonly queue?: string | undefined
  readonly service?: string | undefined
  /** How soon what waits is to be worked off. @default '1m' */
  readonly drain?: Duration | undefined
  /** How many jobs a worker, or a node, runs at once. @default the average of those that live; 10 while none does */
  readonly slots?: number | undefined
}

/** How many workers or nodes the work calls for, and why. */
export interface Scaling {
  /** The store's clock. */
  readonly at: number
  readonly queue: string | null
  readonly service: string | null
  /** How many workers or nodes there should be. */
  readonly wanted: number
  /** How many there are. */
  readonly live: number
  /** Why so many, in words. */
  readonly reason: string
  /** What keeps more from being of use; null: nothing does. */
  readonly boundBy: ScalingBound | null
  /** How many jobs should run at once, and how many of them a worker or node takes. */
  readonly slots: number
  readonly slotsPerMember: number
  /** Jobs that are due, or tasks that wait for a node at this server. */
  readonly waiting: number
  readonly running: number
  /** Jobs that wait for others or for a lock. */
  readonly blocked: number
  /** How long the oldest of those that wait has waited; null: none waits. */
  readonly oldestMs: number | null
  /** Over the last five minutes. */
  readonly arrivalPerSecond: number
  readonly servicePerSecond: number
  /** How long an attempt runs on average; null: none ended in that time, or it is not known. */
  readonly runMs: number | null
}
