/** What became of notifications, by the type of their channel. */
export interface SendingCounts {
  /** Notifications that a provider took. */
  sent: number
  /** Tries that failed and will be made again. */
  retried: number
  dead: number
  /** Tries of which nobody knows whether they arrived. */
  ambiguous: number
  /** Kept for an operator, because nobody knows. */
  held: number
  cancelled: number
  /** Notifications that shared a message with others. */
  digested: number
  /** How often a provider asked a robot to be silent. */
  penalties: number
}

/** Adds up, by type. */
export class SendingTally {
  readonly #types = new Map<string, SendingCounts>()

  add(type: string, what: keyof SendingCounts, count = 1): void {
    const counts = this.#types.get(type) ?? zero()
    this.#types.set(type, counts)
    counts[what] += count
  }

  /** As they are now. */
  counts(): Readonly<Record<string, Readonly<SendingCounts>>> {
    return Object.fromEntries([...this.#types].map(([type, counts]) => [type, { ...counts }]))
  }
}

function zero(): SendingCounts {
  return { sent: 0, retried: 0, dead: 0, ambiguous: 0, held: 0, cancelled: 0, digested: 0, penalties: 0 }
}
