/**
 * Writes for other servers which tasks run, and the progress that their nodes report. No caller waits for these writes.
 * A task is written at most once a second. One write holds many tasks, and one write runs at a time. Newer progress
 * replaces older. A task that ends before its next write is not written.
 */

import { Batcher } from '../../core/batcher.ts'
import { parseJson } from '../../core/json.ts'
import type { JobRecord, LogStore, ProgressRecord } from '../../jobs/index.ts'
import type { Engine } from '../engine.ts'
import { inTime } from '../time-limits.ts'
import type { Claim } from './claims.ts'
import type { TaskProgress } from './task.ts'

/** The last progress that a node reported for a task of this process. */
export interface ReportedProgress {
  readonly nodeId: string
  readonly percent: number | null
  readonly note: string | null
  readonly at: number
}

/** How long the first progress of a task waits for other tasks, and for its own end, which saves the write. */
const gatherMs = 250
/** The least time between two writes of one task. */
const everyMs = 1_000
/** The most tasks of one write, and the pause before the next write, in which results can be written. */
const maxBatch = 200
const writePauseMs = 50
/** A write that takes longer is given up. After a failure the writer pauses. */
const writeWithinMs = 5_000
const failurePauseMs = 1_000

interface ProgressWriterParts extends Pick<Engine, 'claims' | 'monotonicMs' | 'onError'> {
  readonly logs: Pick<LogStore, 'add'>
}

/** Writes the progress of tasks that run here. */
export class ProgressWriter {
  readonly #parts: ProgressWriterParts
  /** Claims with unwritten progress, and when their write is due. */
  readonly #unwritten = new Map<Claim, number>()
  /** The last write of each claim. */
  readonly #writtenAt = new WeakMap<Claim, number>()
  /** The nodes of tasks that run and have reported no progress. */
  readonly #silentNodes = new WeakMap<Claim, string>()
  #timer: NodeJS.Timeout | undefined
  #isWriting = false
  #isStopped = false

  constructor(parts: ProgressWriterParts) {
    this.#parts = parts
  }

  /** Records progress that a node sent, or (null) that the task left its node. */
  report(claim: Claim, progress: ReportedProgress | null): void {
    if (progress === null) {
      const wasReported = this.#silentNodes.delete(claim) || claim.progress !== null
      // Without an earlier report there is nothing to clear.
      if (!wasReported) return
    }
    claim.progress = progress
    this.#schedule(claim)
  }

  /** Records that the task runs on this node, with or without progress. The engine repeats this call while it runs. */
  reportRunning(claim: Claim, nodeId: string): void {
    if (claim.progress !== null || this.#silentNodes.get(claim) === nodeId) return
    this.#silentNodes.set(claim, nodeId)
    this.#schedule(claim)
  }

  #schedule(claim: Claim): void {
    if (claim.isEnding || this.#unwritten.has(claim)) return
    const writtenAt = this.#writtenAt.get(claim) ?? Number.NEGATIVE_INFINITY
    this.#unwritten.set(claim, Math.max(this.#parts.monotonicMs() + gatherMs, writtenAt + everyMs))
    this.#arm(gatherMs)
  }

  /** Stops all writes. */
  stop(): void {
    this.#isStopped = true
    clearTimeout(this.#timer)
    this.#unwritten.clear()
  }

  #arm(inMs: number): void {
    if (this.#timer !== undefined || this.#isWriting || this.#isStopped || this.#unwritten.size === 0) return
    this.#timer = setTimeout(() => {
      this.#timer = undefined
      void this.#write()
    }, inMs)
  }

  async #write(): Promise<void> {
    const { logs, onError } = this.#parts
    const batch = this.#due()
    if (batch.length === 0) {
      this.#arm(writePauseMs)
      return
    }
    this.#isWriting = true
    let pauseMs = writePauseMs
    try {
      const entries = batch.map((claim) => ({
        ...{ jobId: claim.jobId, attempt: claim.attempt, logs: [] },
        progress: encodeProgress(claim.progress, this.#silentNodes.get(claim)),
      }))
      await inTime(writeWithinMs, () => logs.add(entries), 'The log store')
    } catch (error) {
      onError(error)
      pauseMs = failurePauseMs
      const retryAt = this.#parts.monotonicMs() + failurePauseMs
      if (!this.#isStopped) for (const claim of batch) this.#unwritten.set(claim, retryAt)
    }
    this.#isWriting = false
    this.#arm(pauseMs)
  }

  /** Takes the claims whose write is due. */
  #due(): readonly Claim[] {
    const { claims, monotonicMs } = this.#parts
    const now = monotonicMs()
    const batch: Claim[] = []
    for (const [claim, dueAt] of this.#unwritten) {
      if (claims.get(claim.jobId) !== claim || claim.isEnding) this.#unwritten.delete(claim)
      else if (dueAt <= now) {
        this.#unwritten.delete(claim)
        this.#writtenAt.set(claim, now)
        if (batch.push(claim) === maxBatch) break
      }
    }
    return batch
  }
}

/** Encodes progress for the job's logs. The data contains the node, so that readers of the job see it. */
function encodeProgress(progress: ReportedProgress | null, silentNode: string | undefined): string {
  if (progress !== null) {
    const { percent, note, nodeId } = progress
    return JSON.stringify({ percent, note, data: { nodeId } })
  }
  const none = { percent: null, note: null }
  return JSON.stringify(
    silentNode === undefined ? none : { ...none, data: { nodeId: silentNode, isSilent: true } },
  )
}

const readWithinMs = 5_000

/** The node of a running task, and its progress. */
export interface RunningTask {
  readonly nodeId: string
  /** Null: the node has reported none. */
  readonly progress: TaskProgress | null
}

/**
 * The progress of tasks that other servers hold, as these servers wrote it. Calls during a read share the next read, so
 * any number of watchers cost one read at a time.
 */
export class StoredProgress {
  readonly #reads: Batcher<string, ProgressRecord | undefined>

  constructor(logs: Pick<LogStore, 'progress'>) {
    this.#reads = new Batcher({
      start: queueMicrotask,
      mergesEqual: true,
      async run(ids) {
        const kept = await inTime(readWithinMs, () => logs.progress(ids), 'The log store')
        const byId = new Map(kept.map((each) => [each.jobId, each]))
        return ids.map((id) => byId.get(id))
      },
    })
  }

  /** Null: the task does not run, or its server has not written in this attempt. */
  async of({ id, state, attempt }: JobRecord): Promise<RunningTask | null> {
    if (state !== 'running') return null
    const kept = await this.#reads.add(id)
    return kept?.attempt === attempt ? decodeProgress(kept) : null
  }
}

/** Decodes progress. Never throws: damaged or cleared progress is null. */
function decodeProgress({ progress, at }: ProgressRecord): RunningTask | null {
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
