import { Batcher } from '../../core/batcher.ts'
import type { JobRecord, LogStore, ProgressRecord } from '../../jobs/index.ts'
import { inTime } from '../in-time.ts'
import type { TaskProgress } from './task.ts'

const readWithinMs = 5_000

/** That a task runs, and how far it is. */
export interface Noted {
  readonly nodeId: string
  /** Null: its node has not said so. */
  readonly progress: TaskProgress | null
}

/**
 * Which tasks that other servers hold run and how far they are, by what these wrote. Calls that come while a read is in flight
 * share the next one, so any number of watchers cost one read at a time.
 */
export class StoredProgress {
  readonly #reads: Batcher<string, ProgressRecord | undefined>

  constructor(logs: Pick<LogStore, 'progress'>) {
    this.#reads = new Batcher({
      start: queueMicrotask,
      mergesEqual: true,
      async run(ids) {
        const kept = await inTime(readWithinMs, () => logs.progress(ids), 'The store of logs')
        const byId = new Map(kept.map((each) => [each.jobId, each]))
        return ids.map((id) => byId.get(id))
      },
    })
  }

  /** Null: it does not run, or no server has written so in this attempt. */
  async of({ id, state, attempt }: JobRecord): Promise<Noted | null> {
    if (state !== 'running') return null
    const kept = await this.#reads.add(id)
    return kept?.attempt === attempt ? decodeNote(kept) : null
  }
}

/** Never throws: what is damaged, or was taken back, says nothing. */
function decodeNote({ progress, at }: ProgressRecord): Noted | null {
  const kept = parse(progress) as {
    percent?: unknown
    note?: unknown
    data?: { nodeId?: unknown; isSilent?: unknown }
  } | null
  const nodeId = kept?.data?.nodeId
  if (typeof nodeId !== 'string') return null
  if (kept?.data?.isSilent === true) return { nodeId, progress: null }
  const percent = typeof kept?.percent === 'number' ? kept.percent : null
  const note = typeof kept?.note === 'string' ? kept.note : null
  return { nodeId, progress: { percent, note, at } }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
