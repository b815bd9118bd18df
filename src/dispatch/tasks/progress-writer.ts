/**
 * That tasks run, and how far their nodes say they are, written down for other servers. Nobody waits for it. A task is
 * written once a second at most, many tasks in one write and one write at a time; what was said meanwhile takes the place
 * of what was said before. A task that ends before its turn comes costs no write at all.
 */
import type { LogStore } from '../../jobs/index.ts'
import { inTime } from '../in-time.ts'
import type { Claim, Claims } from './claims.ts'

/** How far a node last said that a task is that this process holds. */
export interface SaidProgress {
  readonly nodeId: string
  readonly percent: number | null
  readonly note: string | null
  readonly at: number
}

/** How long the first word of a task waits for others, and to be overtaken by the end. */
const gatherMs = 250
/** How long a task's words are apart in the store. */
const everyMs = 1_000
/** So many tasks go in one write, and the next one follows so much later: results are written in between. */
const maxBatch = 200
const betweenMs = 50
/** A write that takes longer is given up; after trouble there is a pause. */
const writeWithinMs = 5_000
const troubleMs = 1_000

export interface ProgressWriterParts {
  readonly logs: Pick<LogStore, 'add'>
  readonly claims: Claims
  readonly monotonicMs: () => number
  readonly onTrouble: (error: unknown) => void
}

/** What is to be written of tasks that run here. */
export class ProgressWriter {
  readonly #parts: ProgressWriterParts
  /** Those of which the store does not know the latest, and when their turn comes. */
  readonly #news = new Map<Claim, number>()
  /** When those that are here were written last. */
  readonly #writtenAt = new WeakMap<Claim, number>()
  /** The nodes on which tasks run that others are to know of. */
  readonly #runsOn = new WeakMap<Claim, string>()
  #timer: NodeJS.Timeout | undefined
  #isWriting = false
  #isStopped = false

  constructor(parts: ProgressWriterParts) {
    this.#parts = parts
  }

  /** A node said so, or (null) the task is no longer where that was said. */
  say(claim: Claim, progress: SaidProgress | null): void {
    if (progress === null) {
      const wasTold = this.#runsOn.delete(claim) || claim.progress !== null
      // What was never said need not be taken back.
      if (!wasTold) return
    }
    claim.progress = progress
    this.#tell(claim)
  }

  /** It runs there, whether or not anything was said; to be told again and again, for as long as it does. */
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

/** As the job's logs keep it. The node is data to them: who asks for the job sees it there. */
function encodeNote(progress: SaidProgress | null, runsOn: string | undefined): string {
  if (progress !== null) {
    const { percent, note, nodeId } = progress
    return JSON.stringify({ percent, note, data: { nodeId } })
  }
  const none = { percent: null, note: null }
  return JSON.stringify(runsOn === undefined ? none : { ...none, data: { nodeId: runsOn, isSilent: true } })
}
