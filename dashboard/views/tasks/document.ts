import type { WireFoundJob } from '../../../src/client/index.ts'
import type { Term } from '../nodes/rule.ts'

/** What a task was submitted with, as its job keeps it. */
export interface TaskDocument {
  readonly uses: Readonly<Record<string, number>>
  readonly requires: readonly Term[]
  readonly prefers: readonly Term[]
  readonly priority: number
  readonly tenant: string
  readonly session: string | null
  readonly deadlineMs: number | null
  readonly idleMs: number | null
  readonly retryable: boolean
  readonly payload: unknown
}

/** Undefined for a job that holds no task. */
export function documentOf(job: WireFoundJob | null | undefined): TaskDocument | undefined {
  const payload = job?.payload
  if (typeof payload !== 'object' || payload === null || !('uses' in payload)) return undefined
  return payload as TaskDocument
}
