import type { JobRecord, NoteStore, ProgressRecord } from '../jobs/index.ts'
import { inTime } from './intime.ts'
import type { SaidProgress } from './progressnotes.ts'

const readWithinMs = 5_000

/** One read, and who is asked for in it. */
interface Round {
  readonly ids: Set<string>
  readonly said: Promise<ReadonlyMap<string, ProgressRecord>>
}

/**
 * How far tasks in the hands of other servers are, by what these wrote. Whoever asks while a read is under way is
 * answered by the next one, so that any number who watch cost one read at a time.
 */
export class NotedProgress {
  readonly #notes: Pick<NoteStore, 'progress'>
  #next: Round | null = null
  #last: Promise<unknown> = Promise.resolve()

  constructor(notes: Pick<NoteStore, 'progress'>) {
    this.#notes = notes
  }

  /** Null: it does not run, or its node has not said how far it is in this attempt. */
  async of({ id, state, attempt }: JobRecord): Promise<SaidProgress | null> {
    if (state !== 'running') return null
    this.#next ??= this.#begin()
    const { ids, said } = this.#next
    ids.add(id)
    const kept = (await said).get(id)
    return kept?.attempt === attempt ? decodeProgress(kept) : null
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
function decodeProgress({ progress, at }: ProgressRecord): SaidProgress | null {
  const kept = parse(progress) as { percent?: unknown; note?: unknown; data?: { nodeId?: unknown } } | null
  const nodeId = kept?.data?.nodeId
  if (typeof nodeId !== 'string') return null
  return {
    nodeId,
    percent: typeof kept?.percent === 'number' ? kept.percent : null,
    note: typeof kept?.note === 'string' ? kept.note : null,
    at,
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
