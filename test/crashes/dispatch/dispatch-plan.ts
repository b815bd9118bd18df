/**
 * The options of servers and nodes in a killing campaign, the requirements of tasks, and the recorded events. Times are of
 * the host's monotonic clock.
 */
import type { Task } from '../../../src/dispatch/index.ts'

/** Slots by service. */
export type Slots = Readonly<Record<string, number>>

export interface DispatchServerOptions {
  readonly url: string
  readonly redis: string
  /** 0 takes any free one. */
  readonly port: number
}

export interface DispatchNodeOptions {
  readonly urls: readonly string[]
  readonly folder: string
  readonly nodeId: string
  /** A node that is started again has the same id, and is another instance. */
  readonly instance: string
  readonly slots: Slots
}

/** Short, so that the dead are missed soon; what is asserted has ten times of it. */
export const dispatchTimes = {
  heartbeatMs: 1_000,
  closedGraceMs: 500,
  leaseMs: 3_000,
  serverLeaseMs: 3_000,
  pollMs: 100,
} as const

/**
 * How a task must end despite all kills: `flaky` fails its first attempts and completes, `refused` fails for good,
 * `cancelled` may complete before that, `dated` may come too late, and `holding` runs until it is released.
 */
export type TaskWish = 'plain' | 'flaky' | 'refused' | 'cancelled' | 'dated' | 'holding'

/** What a task carries. */
export interface TaskPayload {
  /** Of the submit: no two have the same. */
  readonly number: number
  readonly wish: TaskWish
  readonly uses: Slots
  readonly holdMs: number
  readonly deadlineMs: number | null
  /** How many attempts of a `flaky` task fail. */
  readonly failures: number
  /** `holding` ends when there is a file of this name. */
  readonly release: string
  /** How long its handler takes to notice the cancellation. */
  readonly deafMs: number
}

/** What a task that completes has answered. */
export interface TaskOutput {
  readonly instance: string
  readonly attempt: number
}

/** The code of a failure that is for good. */
export const refusedCode = 'wont_do'

interface OfRun {
  readonly t: number
  readonly instance: string
  readonly taskId: string
  readonly attempt: number
}

/** What a node writes down. */
export type NodeEvent =
  | {
      readonly type: 'up'
      readonly t: number
      readonly instance: string
      readonly nodeId: string
      readonly slots: Slots
    }
  /** Written before anything is done. */
  | (OfRun & { readonly type: 'begin'; readonly number: number; readonly uses: Slots })
  /** Written before the handler returns. */
  | (OfRun & { readonly type: 'end'; readonly how: RunEnd })
  /** It was given a task and had no slot for it. */
  | (OfRun & { readonly type: 'busy' })
  /** The node learned that the task is not its own, and dropped it. */
  | (OfRun & { readonly type: 'stale' })
  /** The node learned that its end is durable. */
  | (OfRun & { readonly type: 'settled' })

export type RunEnd = 'completed' | 'failed' | 'refused' | 'aborted'

/** A blow, and when the one that was hit answered again. */
export interface Blow {
  readonly kind: 'server' | 'node' | 'redis'
  /** The instance of a node; the name of another. */
  readonly name: string
  readonly t: number
  readonly backAt: number
}

/** A submit that was answered, or not. */
export interface SubmitNote extends Pick<TaskPayload, 'number' | 'wish' | 'deadlineMs'> {
  /** Undefined: no answer came, and the task may exist or not. */
  readonly taskId: string | undefined
}

/** A task as a caller saw it. */
export type SeenTask = Pick<Task, 'taskId' | 'status' | 'attempt' | 'submittedAt' | 'finishedAt'> & {
  readonly output: unknown
  readonly errorCode: string | null
}

/** A node as a server shows it when all is over. */
export interface RestingNode {
  /** The node that reported it. */
  readonly server: string
  readonly nodeId: string
  readonly status: string
  readonly used: Slots
}
