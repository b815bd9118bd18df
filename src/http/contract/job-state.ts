import type { TUnsafe } from 'typebox'
import { jobStates } from '../../core/job-states.ts'
import { Type } from './schema.ts'

/** The states of a job. */
export const jobState: TUnsafe<(typeof jobStates)[number]> = Type.Unsafe(
  Type.Union(jobStates.map((state) => Type.Literal(state))),
)
