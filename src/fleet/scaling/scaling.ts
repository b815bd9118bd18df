import type { Duration } from '../../core/duration.ts'
import type { ScalingBound } from './decide-scaling.ts'

/** What to scale: either the workers of a queue, or the nodes of a service. */
export interface ScalingRequest {
  readonly queue?: string | undefined
  readonly service?: string | undefined
  /** The time in which the waiting jobs should be finished. @default '1m' */
  readonly drain?: Duration | undefined
  /**
   * The number of jobs that a worker, or a node, runs at once. @default the average of the live ones; 10 without any
   */
  readonly slots?: number | undefined
}

/** The number of workers or nodes that the work needs, and why. */
export interface Scaling {
  /** The store's clock. */
  readonly at: number
  readonly queue: string | null
  readonly service: string | null
  /** The number of workers or nodes that there should be. */
  readonly wanted: number
  /** The number of live workers or nodes. */
  readonly live: number
  /** The reason for `wanted`, in words. */
  readonly reason: string
  /** The limit because of which more would not help; null: none. */
  readonly boundBy: ScalingBound | null
  /** The number of jobs that should run at once, and the number that one worker or node runs. */
  readonly slots: number
  readonly slotsPerMember: number
  /** Jobs that are due, or tasks that wait for a node at this server. */
  readonly waiting: number
  readonly running: number
  /** Jobs that wait for other jobs or for a lock. */
  readonly blocked: number
  /** How long the oldest waiting job has waited; null: none waits. */
  readonly oldestMs: number | null
  /** Over the last five minutes. */
  readonly arrivalPerSecond: number
  readonly servicePerSecond: number
  /** The average time of an attempt; null: no attempt ended in that time, or unknown. */
  readonly runMs: number | null
}
