import type { JobRecord, NoteStore, ProgressRecord } from '../../jobs/index.ts'
import { inTime } from '../in-time.ts'
import type { TaskProgress } from './task.ts'

const readWithinMs = 5_000

/** That a task runs, and how far it is. */
export interface Noted {
  readonly nodeId: string
  /** Null: its node has not said so. */
  readonly progress: TaskProgress | null
}

/** One read, and who is asked for in it. */
interface Round {
  readonly ids: Set<string>
  readonly said: Promise<ReadonlyMap<string, ProgressRecord>>
}

/**
 * Which tasks that other servers hold run and how far they are, by what these wrote. Whoever asks while a read is under way is
 * answered by the next one, so that any number who watch cost one read at a time.
 */
export class NotedProgress {
  readonly #notes: Pick<NoteStore, 'progress'>
  #next: Round | null = null
  #last: Promise<unknown> = Promise.resolve()

  constructor(notes: Pick<NoteStore, 'progress'>) {
    this.#notes = notes
  }

  /** Null: it does not run, or no server has written so in this attempt. */
  async of({ id, state, attempt }: JobRecord): Promise<Noted | null> {
    if (state !== 'running') return null
    this.#next ??= this.#begin()
    const { ids, said } = this.#next
    ids.add(id)
    const kept = (await said).get(id)
    return kept?.attempt === attempt ? decodeNote(kept) : null
  }

  #begin(): Round {
    const ids = new Set<string>()
    const said = this.#last.then(async () => {
      this.#next = null
      const kept = await inTime(readWithinMs, () => this.#notes.progress([...ids]), 'The store of notes')
      return new Map(kept.map((each) => [each.jobId, each]))
    })
    this.#last = said.catch(() => undefined)
    return { ids, said }
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
