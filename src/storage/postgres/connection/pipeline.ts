import pg, { type Connection, type PoolClient, Query, type QueryResult } from 'pg'

/**
 * Uses abilities of the driver that its types hide. Several statements go to the server as one packet, and the server
 * answers them together. With `query`, each statement has a separate answer, which costs both sides a write, a read and
 * a wake-up.
 */

/** Sends all statements of `send` in one packet: writing to the socket was half of this process's time in a profile. */
export function inOnePacket<Answer>(client: PoolClient, send: () => Answer): Answer {
  const { stream } = (client as unknown as { connection: Connection }).connection
  stream.cork()
  try {
    return send()
  } finally {
    stream.uncork()
  }
}

/** 'I': idle. 'T': in a transaction. 'E': in a failed transaction. */
export function statusOf(client: unknown): string | null {
  return (client as { getTransactionStatus?(): string | null }).getTransactionStatus?.() ?? null
}

/** One statement of a packet. A statement with a name is prepared once per connection. */
export interface Step {
  readonly text: string
  readonly values?: readonly unknown[]
  readonly name?: string | undefined
}

/** An encoded value: text, bytes, or null. */
type Value = string | Buffer | null

/** A step with encoded values. */
export interface EncodedStep extends Step {
  readonly values?: readonly Value[]
}

/** Encodes the values before anything is sent, so that an invalid value has no effect. */
export function encodeStep({ text, name, values }: Step): EncodedStep {
  if (values === undefined) return { text, name }
  if (values.length > maxValues) {
    throw new RangeError(`A statement has at most ${maxValues} parameters, not ${values.length}.`)
  }
  return { text, name, values: values.map((value) => prepareValue(value)) }
}

/** The protocol has two bytes for the number of values. */
const maxValues = 65_535
const noValues: readonly Value[] = []

/** The failure of a packet. */
export class PacketFailure {
  /** The error of the database or the driver. */
  readonly cause: unknown
  /**
   * The index of the failed step; below zero, a step of the prelude. The server did the steps before it and skipped the
   * rest.
   */
  readonly at: number
  /** Whether an earlier packet prepared that step, so that the tables may have changed since. */
  readonly wasPrepared: boolean

  constructor(cause: unknown, at: number, wasPrepared: boolean) {
    this.cause = cause
    this.at = at
    this.wasPrepared = wasPrepared
  }
}

/** Statements that go out together. */
export interface PacketContent {
  /** Steps that must come first, such as BEGIN. */
  readonly prelude: readonly EncodedStep[]
  readonly steps: readonly EncodedStep[]
  /** The index of the step whose answer the caller gets. */
  readonly main: number
}

/**
 * Sends statements as one packet, which the server answers together. The driver's usual way costs both sides a write, a
 * read and a wake-up per statement. After a failed step the server skips the rest of the packet, including a COMMIT.
 * Answers the result of the main step; rejects with a PacketFailure.
 */
export function sendPacket(
  client: PoolClient,
  prepared: PreparedStatements | undefined,
  content: PacketContent,
): Promise<QueryResult> {
  return new Promise((resolve, reject) => {
    const packet = new Packet(content, prepared, (error, result) => {
      if (error) reject(packet.failure(error))
      else resolve(result as QueryResult)
    })
    client.query(packet as unknown as Query)
  })
}

/** Methods of the driver that its types hide. */
interface Driven {
  callback: Answered
  handleCommandComplete(message: unknown, connection: Connection): void
  handleEmptyQuery(connection: Connection): void
  handleDataRow(message: unknown): void
}
/** The messages of the protocol, as the driver's connection sends them. */
interface Messages {
  close(statement: { type: 'S'; name: string }): void
  parse(statement: { name: string; text: string }): void
  bind(portal: { statement: string; values: readonly Value[] }): void
  describe(portal: { type: 'P'; name: string }): void
  execute(): void
  sync(): void
}
type Answered = (error: Error | null | undefined, result?: unknown) => void
const DrivenQuery = Query as unknown as new (text: string) => Driven
const { prepareValue } = (pg as unknown as { utils: { prepareValue(value: unknown): Value } }).utils

/** A packet as a query of the driver, for a pipelined connection. It keeps only the answer of the main step. */
class Packet extends DrivenQuery {
  readonly #content: PacketContent
  readonly #prepared: PreparedStatements | undefined
  readonly #uses: (StatementUse | undefined)[] = []
  /** How many steps were answered, including the prelude. */
  #doneCount = 0

  constructor(content: PacketContent, prepared: PreparedStatements | undefined, answered: Answered) {
    // Without a name: the driver would store the name for the first parsed statement of the packet.
    super(content.steps[content.main]!.text)
    this.#content = content
    this.#prepared = prepared
    this.callback = answered
  }

  submit(connection: Connection): null {
    const { prelude, steps, main } = this.#content
    const driven = connection as unknown as Messages
    const { stream } = connection
    stream.cork()
    try {
      for (const step of prelude) this.#send(driven, step, false)
      for (let at = 0; at < steps.length; at++) this.#send(driven, steps[at]!, at === main)
      driven.sync()
    } catch (error) {
      // A message is too large. A transaction whose BEGIN was in the packet must not continue as if BEGIN had been
      // sent.
      stream.destroy()
      throw error
    } finally {
      stream.uncork()
    }
    return null
  }

  #send(messages: Messages, { name, text, values = noValues }: EncodedStep, isMain: boolean): void {
    const use = name === undefined ? undefined : this.#prepared?.use(name)
    this.#uses.push(use)
    for (const closed of use?.closed ?? []) messages.close({ type: 'S', name: closed })
    const statement = use === undefined ? '' : name!
    if (use?.isPrepared !== true) messages.parse({ name: statement, text })
    messages.bind({ statement, values })
    if (isMain) messages.describe({ type: 'P', name: '' })
    messages.execute()
  }

  failure(error: unknown): PacketFailure {
    const at = this.#doneCount
    for (const use of this.#uses.slice(at)) use?.markUncertain()
    return new PacketFailure(error, at - this.#content.prelude.length, this.#uses[at]?.isPrepared === true)
  }

  override handleCommandComplete(message: unknown, connection: Connection): void {
    if (this.#isMain) super.handleCommandComplete(message, connection)
    this.#doneCount++
  }

  override handleEmptyQuery(connection: Connection): void {
    if (this.#isMain) super.handleEmptyQuery(connection)
    this.#doneCount++
  }

  override handleDataRow(message: unknown): void {
    if (this.#isMain) super.handleDataRow(message)
  }

  get #isMain(): boolean {
    return this.#doneCount === this.#content.prelude.length + this.#content.main
  }
}

/** How a statement is used in one packet. */
export interface StatementUse {
  /** Whether the server has it from an earlier packet, so that it need not be parsed again. */
  readonly isPrepared: boolean
  /** Statements that the server must close first. */
  readonly closed: readonly string[]
  /** The server may or may not have parsed the statement: the next use prepares it again. */
  markUncertain(): void
}

const maxStatements = 100
const nothing: readonly string[] = []

/**
 * The prepared statements of one connection. Their number is limited, because each costs the server memory; the least
 * recently used one is closed first. Closing an unknown name is no error, so an uncertain one is closed and parsed
 * again.
 */
export class PreparedStatements {
  /** By name, the least recently used first. True: the server has the statement. False: uncertain. */
  readonly #statements = new Map<string, boolean>()

  use(name: string): StatementUse {
    const known = this.#statements.get(name)
    this.#statements.delete(name)
    this.#statements.set(name, true)
    if (known === true) return { isPrepared: true, closed: nothing, markUncertain: () => undefined }
    const closed = known === false ? [name] : this.#evictOldest()
    return { isPrepared: false, closed, markUncertain: () => void this.#statements.set(name, false) }
  }

  #evictOldest(): readonly string[] {
    if (this.#statements.size <= maxStatements) return nothing
    const [oldest] = this.#statements.keys()
    this.#statements.delete(oldest!)
    return [oldest!]
  }
}

const fewUses = 5
const maxTexts = 500
const maxTextLength = 10_000

/**
 * Decides which statements of handlers to prepare: those that repeat. Parsing and planning a small INSERT costs the
 * server as much as executing it. A text gets a name after a few uses. A text that is different for each job never gets
 * one.
 */
export class StatementNames {
  readonly #seen = new Map<string, { count: number; name: string | undefined }>()
  #named = 0

  /** The name of a text. Undefined: it has none yet. */
  of(text: string): string | undefined {
    const seen = this.#seen.get(text)
    if (seen === undefined) {
      this.#remember(text)
      return undefined
    }
    if (seen.name === undefined && ++seen.count > fewUses) seen.name = `signalbox_${++this.#named}`
    return seen.name
  }

  /** The prepared statement may be outdated: the text loses its name, and gets a new one after a few uses. */
  forget(text: string): void {
    this.#seen.delete(text)
  }

  #remember(text: string): void {
    if (text.length > maxTextLength) return
    if (this.#seen.size >= maxTexts) {
      const [oldest] = this.#seen.keys()
      this.#seen.delete(oldest!)
    }
    this.#seen.set(text, { count: 1, name: undefined })
  }
}
