/** How a statement is used in one packet. */
export interface Use {
  /** Whether the server has it from an earlier packet, so that it need not be parsed again. */
  readonly isPrepared: boolean
  /** What the server is to forget first. */
  readonly closed: readonly string[]
  /** It may never have been parsed, or it may have been: it is made anew the next time. */
  doubt(): void
}

const mostStatements = 100
const nothing: readonly string[] = []

/**
 * What one connection has prepared. At most so many statements: each is memory in the server. The one that was not used
 * for longest goes. Closing what is not there is no error, so whatever is in doubt is closed and parsed again.
 */
export class PreparedStatements {
  /** By name, the least recently used first; the value says whether the server surely has it. */
  readonly #statements = new Map<string, boolean>()

  use(name: string): Use {
    const known = this.#statements.get(name)
    this.#statements.delete(name)
    this.#statements.set(name, true)
    if (known === true) return { isPrepared: true, closed: nothing, doubt: () => undefined }
    const closed = known === false ? [name] : this.#makeRoom()
    return { isPrepared: false, closed, doubt: () => void this.#statements.set(name, false) }
  }

  #makeRoom(): readonly string[] {
    if (this.#statements.size <= mostStatements) return nothing
    const [oldest] = this.#statements.keys()
    this.#statements.delete(oldest!)
    return [oldest!]
  }
}

const fewUses = 5
const mostTexts = 500
const longestText = 10_000

/**
 * Which of the handlers' statements are worth being prepared: those that come again and again, as a handler's do. Parsing
 * and planning a small INSERT costs the server as much as doing it. A text that came a few times gets a name; one that is
 * made anew for every job never does.
 */
export class StatementNames {
  readonly #seen = new Map<string, { count: number; name: string | undefined }>()
  #named = 0

  /** Undefined: not yet. */
  of(text: string): string | undefined {
    const seen = this.#seen.get(text)
    if (seen === undefined) {
      this.#note(text)
      return undefined
    }
    if (seen.name === undefined && ++seen.count > fewUses) seen.name = `signalbox_${++this.#named}`
    return seen.name
  }

  /** It may be out of date: no connection uses what it has of it, and it has to earn another name. */
  forget(text: string): void {
    this.#seen.delete(text)
  }

  #note(text: string): void {
    if (text.length > longestText) return
    if (this.#seen.size >= mostTexts) {
      const [oldest] = this.#seen.keys()
      this.#seen.delete(oldest!)
    }
    this.#seen.set(text, { count: 1, name: undefined })
  }
}
