import type { LogUpdate, NewLogLine } from '../../../src/jobs/index.ts'

/** A note of a first attempt that says nothing but what the test says. */
export function anUpdate(jobId: string, note: Partial<LogUpdate> = {}): LogUpdate {
  return { jobId, attempt: 1, progress: null, logs: [], ...note }
}

export function infos(...texts: readonly string[]): readonly NewLogLine[] {
  return texts.map((text) => ({ level: 'info', text }))
}
