import type { LogUpdate, NewLogLine } from '../../../src/jobs/index.ts'

/** An update of a first attempt with only the fields that the test gives. */
export function anUpdate(jobId: string, note: Partial<LogUpdate> = {}): LogUpdate {
  return { jobId, attempt: 1, progress: null, logs: [], ...note }
}

export function infos(...texts: readonly string[]): readonly NewLogLine[] {
  return texts.map((text) => ({ level: 'info', text }))
}
