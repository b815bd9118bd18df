/**
 * Tasks that a node lists and that hold no slots of it in the books: what it ran for another server, or for this one
 * before a restart. Until somebody has looked up how much of the node they take, it gets no new work; what is found
 * to take nothing is remembered as such, because the node goes on listing it until it is told.
 */

/** More than this are not told apart: the lists of nodes are bounded by the size of a frame, not by reason. */
const maxUnsure = 4_096
const maxOver = 256

/** What is known of a node's strangers. */
export class Strangers {
  /** Looked up, no answer yet: the node is closed for new work. */
  readonly unsure: Set<string> = new Set()
  /** Those of `unsure` that were not asked about yet. */
  readonly unasked: Set<string> = new Set()
  /** Looked up for so long that the node was opened all the same; an answer is still welcome. */
  readonly unanswered: Set<string> = new Set()
  /** They take nothing of the node: they ended at its word, or were given all the time to stop that there is. */
  readonly over: Set<string> = new Set()

  /** A task is listed that nobody knows. */
  add(taskId: string): void {
    if (this.unanswered.has(taskId) || this.unsure.has(taskId) || this.unsure.size >= maxUnsure) return
    this.unsure.add(taskId)
    this.unasked.add(taskId)
  }

  /** The answer came, or is no longer needed; false: nobody waited for it. */
  resolve(taskId: string): boolean {
    if (this.unsure.size === 0 && this.unanswered.size === 0) return false
    this.unasked.delete(taskId)
    return this.unsure.delete(taskId) || this.unanswered.delete(taskId)
  }

  /** It takes nothing of the node, whether listed or not; only the latest of them are remembered. */
  end(taskId: string, totalSlots: number): void {
    this.resolve(taskId)
    this.over.delete(taskId)
    this.over.add(taskId)
    // As many as it may have said just now and not been told about yet.
    if (this.over.size <= Math.min(maxOver, 16 + totalSlots)) return
    for (const eldest of this.over) {
      this.over.delete(eldest)
      return
    }
  }

  /** The node lists these and no others. */
  keep(listed: ReadonlySet<string>): void {
    for (const set of [this.unsure, this.unasked, this.unanswered, this.over]) {
      for (const taskId of set) if (!listed.has(taskId)) set.delete(taskId)
    }
  }

  /** No answer came in time: nothing is held against the node any more. */
  giveUp(): void {
    for (const taskId of this.unsure) this.unanswered.add(taskId)
    this.unsure.clear()
    this.unasked.clear()
  }

  clear(): void {
    for (const set of [this.unsure, this.unasked, this.unanswered, this.over]) set.clear()
  }
}
