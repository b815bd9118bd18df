/**
 * Tasks that a node lists and that hold no slots of it in the registry: what it ran for another server, or for this one
 * before a restart. Until somebody has looked up how much of the node they take, it gets no new work; what is found
 * to take nothing is remembered as such, because the node goes on listing it until it is told.
 */

/** More than this are not told apart: the lists of nodes are bounded by the size of a frame, not by reason. */
const maxUnsure = 4_096
const maxOver = 256

/** Most nodes never have a foreign task: they share this, and nothing is ever put into it. */
const none: Set<string> = new Set()

/** What is known of a node's foreign tasks. */
export class ForeignTasks {
  /** Looked up, no answer yet: the node is closed for new work. */
  unsure: Set<string> = none
  /** Those of `unsure` that were not asked about yet. */
  unasked: Set<string> = none
  /** Looked up for so long that the node was opened all the same; an answer is still welcome. */
  unanswered: Set<string> = none
  /** They take nothing of the node: they ended at its word, or were given all the time to stop that there is. */
  readonly over: LatestIds = new LatestIds()

  /** The node lists an unknown task. */
  add(taskId: string): void {
    if (this.unanswered.has(taskId) || this.unsure.has(taskId) || this.unsure.size >= maxUnsure) return
    this.unsure = withOne(this.unsure, taskId)
    this.unasked = withOne(this.unasked, taskId)
  }

  /** The answer came, or is no longer needed; false: it was not expected. */
  resolve(taskId: string): boolean {
    if (this.unsure.size === 0 && this.unanswered.size === 0) return false
    this.unasked.delete(taskId)
    return this.unsure.delete(taskId) || this.unanswered.delete(taskId)
  }

  /** It takes nothing of the node, whether listed or not; only the latest of them are remembered. */
  end(taskId: string, totalSlots: number): void {
    this.resolve(taskId)
    // As many as it may have said just now and not been told about yet.
    this.over.add(taskId, Math.min(maxOver, 16 + totalSlots))
  }

  /** The node lists these and no others. */
  keep(listed: ReadonlySet<string>): void {
    for (const set of [this.unsure, this.unasked, this.unanswered]) {
      for (const taskId of set) if (!listed.has(taskId)) set.delete(taskId)
    }
    this.over.keep(listed)
  }

  /** No answer came in time: nothing is held against the node any more. */
  giveUp(): void {
    for (const taskId of this.unsure) this.unanswered = withOne(this.unanswered, taskId)
    this.unsure.clear()
    this.unasked.clear()
  }

  clear(): void {
    for (const set of [this.unsure, this.unasked, this.unanswered, this.over]) set.clear()
  }
}

function withOne(set: Set<string>, taskId: string): Set<string> {
  return (set === none ? new Set<string>() : set).add(taskId)
}

/**
 * The latest of many ids. One is added with every task that ends, so it is a list that is cut now and then: a set from
 * which the eldest is deleted each time walks past the remains of those before it.
 */
class LatestIds {
  #ids: string[] = []
  #most = 0

  /** Remembers it, and at most so many. */
  add(id: string, most: number): void {
    if (this.#ids.at(-1) === id) return
    this.#most = most
    this.#ids.push(id)
    if (this.#ids.length >= 2 * most) this.#ids.splice(0, this.#ids.length - most)
  }

  has(id: string): boolean {
    const index = this.#ids.lastIndexOf(id)
    return index >= 0 && index >= this.#ids.length - this.#most
  }

  /** Forgets all but these. */
  keep(ids: ReadonlySet<string>): void {
    if (this.#ids.length > 0) this.#ids = this.#ids.slice(-this.#most).filter((id) => ids.has(id))
  }

  clear(): void {
    if (this.#ids.length > 0) this.#ids = []
  }
}
