/**
 * Writes for other servers which tasks run, and how far their nodes say they are. Nothing waits for it. A task is
 * written once a second at most, many tasks in one write and one write at a time; newer progress replaces older. A
 * task that ends before its turn costs no write.
 */

import { Batcher } from '../../core/batcher.ts'
import { parseJson } from '../../core/json.ts'
import type { JobRecord, LogStore, ProgressRecord } from '../../jobs/index.ts'
import type { Engine } from '../engine.ts'
import { inTime } from '../time-limits.ts'
import type { Claim } from './claims.ts'
import type { TaskProgress } from './task.ts'

/** The last progress that a node sent of a task that this process holds. */
export interface SaidProgress {
  readonly nodeId: string
  readonly percent: number | null
  readonly note: string | null
  readonly at: number
}

/** How long the first progress of a task waits: for other tasks, and for the end, which makes it needless. */
const gatherMs = 250
/** The least time between two writes of one task. */
const everyMs = 1_000
/** The most tasks of one write, and the pause before the next: results are written in between. */
const maxBatch = 200
const betweenMs = 50
/** A write that takes longer is given up; after trouble there is a pause. */
const writeWithinMs = 5_000
const troubleMs = 1_000

interface ProgressWriterParts extends Pick<Engine, 'claims' | 'monotonicMs' | 'onTrouble'> {
  readonly logs: Pick<LogStore, 'add'>
}

/** Writes the progress of tasks that run here. */
export class ProgressWriter {
  readonly #parts: ProgressWriterParts
  /** Claims with unwritten progress, and when they are due. */
  readonly #news = new Map<Claim, number>()
  /** When a claim was written last. */
  readonly #writtenAt = new WeakMap<Claim, number>()
  /** The nodes of tasks that run without progress, for the other servers. */
  readonly #runsOn = new WeakMap<Claim, string>()
  #timer: NodeJS.Timeout | undefined
  #isWriting = false
  #isStopped = false

  constructor(parts: ProgressWriterParts) {
    this.#parts = parts
  }

  /** A node sent progress, or (null) the task left its node. */
  say(claim: Claim, progress: SaidProgress | null): void {
    if (progress === null) {
      const wasTold = this.#runsOn.delete(claim) || claim.progress !== null
      // Nothing was written that would have to be taken back.
      if (!wasTold) return
    }
    claim.progress = progress
    this.#tell(claim)
  }

  /** The task runs on this node, with progress or without. The engine calls this repeatedly while it runs. */
  runs(claim: Claim, nodeId: string): void {
    if (claim.progress !== null || this.#runsOn.get(claim) === nodeId) return
    this.#runsOn.set(claim, nodeId)
    this.#tell(claim)
  }

  #tell(claim: Claim): void {
    if (claim.isEnding || this.#news.has(claim)) return
    const writtenAt = this.#writtenAt.get(claim) ?? Number.NEGATIVE_INFINITY
    this.#news.set(claim, Math.max(this.#parts.monotonicMs() + gatherMs, writtenAt + everyMs))
    this.#arm(gatherMs)
  }

  /** Writes no more. */
  stop(): void {
    this.#isStopped = true
    clearTimeout(this.#timer)
    this.#news.clear()
  }

  #arm(inMs: number): void {
    if (this.#timer !== undefined || this.#isWriting || this.#isStopped || this.#news.size === 0) return
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      void this.#write()
    }, inMs)
  }

  async #write(): Promise<void> {
    const { logs, onTrouble } = this.#parts
    const batch = this.#due()
    if (batch.length === 0) {
      this.#arm(betweenMs)
      return
    }
    this.#isWriting = true
    let pauseMs = betweenMs
    try {
      const said = batch.map((claim) => ({
        ...{ jobId: claim.jobId, attempt: claim.attempt, logs: [] },
        progress: encodeNote(claim.progress, this.#runsOn.get(claim)),
      }))
      await inTime(writeWithinMs, () => logs.add(said), 'The store of logs')
    } catch (error) {
      onTrouble(error)
      pauseMs = troubleMs
      const again = this.#parts.monotonicMs() + troubleMs
      if (!this.#isStopped) for (const claim of batch) this.#news.set(claim, again)
    }
    this.#isWriting = false
    this.#arm(pauseMs)
  }

  /** Takes those whose turn has come. */
  #due(): readonly Claim[] {
    const { claims, monotonicMs } = this.#parts
    const now = monotonicMs()
    const batch: Claim[] = []
    for (const [claim, dueAt] of this.#news) {
      if (claims.get(claim.jobId) !== claim || claim.isEnding) this.#news.delete(claim)
      else if (dueAt <= now) {
        this.#news.delete(claim)
        this.#writtenAt.set(claim, now)
        if (batch.push(claim) === maxBatch) break
      }
    }
    return batch
  }
}

/** As the job's logs keep it: the node is part of the data, so readers of the job see it. */
function encodeNote(progress: SaidProgress | null, runsOn: string | undefined): string {
  if (progress !== null) {
    const { percent, note, nodeId } = progress
    return JSON.stringify({ percent, note, data: { nodeId } })
  }
  const none = { percent: null, note: null }
  return JSON.stringify(runsOn === undefined ? none : { ...none, data: { nodeId: runsOn, isSilent: true } })
}

const readWithinMs = 5_000

/** That a task runs, and how far it is. */
export interface Noted {
  readonly nodeId: string
  /** Null: its node has not said so. */
  readonly progress: TaskProgress | null
}

/**
 * The progress of tasks that other servers hold, as they wrote it. Calls that come while a read is in flight share the
 * next one, so any number of watchers cost one read at a time.
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

  /** Null: it does not run, or its server has not written so in this attempt. */
  async of({ id, state, attempt }: JobRecord): Promise<Noted | null> {
    if (state !== 'running') return null
    const kept = await this.#reads.add(id)
    return kept?.attempt === attempt ? decodeNote(kept) : null
  }
}

/** Never throws. Damaged progress, and progress that was taken back, is null. */
function decodeNote({ progress, at }: ProgressRecord): Noted | null {
  const kept = parseJson(progress, null) as {
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
