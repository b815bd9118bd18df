import type { AnyDefinition, JobDefinition } from './define-job.ts'

/** What a job is added by: its kind, or its definition. */
export type AddTarget = string | AnyDefinition

/**
 * What follows the kind or the definition in a call of `add`. It is one signature and not two: where a payload does not fit
 * its definition, the compiler then names the field of the payload, and does not complain that a definition is no text.
 */
export type AddArguments<Target extends AddTarget, Options> = [Target] extends [
  JobDefinition<string, infer Input, infer _>,
]
  ? [payload: Input, options?: Options]
  : [payload?: unknown, options?: Options]
