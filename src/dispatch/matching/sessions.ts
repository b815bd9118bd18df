/** Which node a session's tasks went to: remembered for a while after the last one, and for so many sessions at most. */
export class Sessions {
  /** In the order of their last use, so that the oldest are the first. */
  readonly #nodes = new Map<string, { readonly nodeId: string; readonly until: number }>()
  readonly #keepMs: number
  readonly #limit: number

  constructor(keepMs: number, limit: number) {
    this.#keepMs = keepMs
    this.#limit = limit
  }

  get size(): number {
    return this.#nodes.size
  }

  find(session: string, now: number): string | undefined {
    const known = this.#nodes.get(session)
    return known !== undefined && known.until > now ? known.nodeId : undefined
  }

  bind(session: string, nodeId: string, now: number): void {
    this.#nodes.delete(session)
    this.#nodes.set(session, { nodeId, until: now + this.#keepMs })
    // With each one that comes, one that ran out or is too many goes: no sweep that would take long.
    for (const [oldest, { until }] of this.#nodes) {
      if (until > now && this.#nodes.size <= this.#limit) break
      this.#nodes.delete(oldest)
      if (this.#nodes.size <= this.#limit) break
    }
  }
}
