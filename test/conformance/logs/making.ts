import type { NewLogLine, Note } from '../../../src/jobs/index.ts'

/** A note of a first attempt that says nothing but what the test says. */
export function aNote(jobId: string, note: Partial<Note> = {}): Note {
  return { jobId, attempt: 1, progress: null, logs: [], ...note }
}

export function infos(...texts: readonly string[]): readonly NewLogLine[] {
  return texts.map((text) => ({ level: 'info', text }))
}
