import pg, { type Connection, type PoolClient, Query, type QueryResult } from 'pg'

/**
 * What the driver can do and its types do not say. Several statements go to the server as one packet, and the server answers all of
 * them together. Through `query` each statement has an answer, which costs both sides a write, a read and a wake-up.
 */

/** What `send` sends goes out in one packet: writing to the socket was half of this process's time in a profile. */
export function inOnePacket<Answer>(client: PoolClient, send: () => Answer): Answer {
  const { stream } = (client as unknown as { connection: Connection }).connection
  stream.cork()
  try {
    return send()
  } finally {
    stream.uncork()
  }
}

/** 'I' idle, 'T' in a transaction, 'E' in one that failed. */
export function statusOf(client: unknown): string | null {
  return (client as { getTransactionStatus?(): string | null }).getTransactionStatus?.() ?? null
}

/** One statement of a packet. With a name it is prepared under it, once per connection. */
export interface Step {
  readonly text: string
  readonly values?: readonly unknown[]
  readonly name?: string | undefined
}

/** A value as it goes out: text, bytes, or nothing. */
type Value = string | Buffer | null

/** The same, as it goes out. */
export interface EncodedStep extends Step {
  readonly values?: readonly Value[]
}

/** Before anything is sent: a value that cannot be sent must harm nothing. */
export function encodeStep({ text, name, values }: Step): EncodedStep {
  if (values === undefined) return { text, name }
  if (values.length > mostValues) {
    throw new RangeError(`A statement has at most ${mostValues} parameters, not ${values.length}.`)
  }
  return { text, name, values: values.map((value) => prepareValue(value)) }
}

/** Their number goes out in two bytes. */
const mostValues = 65_535
const noValues: readonly Value[] = []

/** What came of a packet that failed. */
export class PacketFailure {
  /** What the database or the driver said. */
  readonly cause: unknown
  /** Which step failed, below zero one that rode; those before it were done, those after it were not looked at. */
  readonly at: number
  /** Whether that step was prepared by an earlier packet, so that it may have been made for tables as they were. */
  readonly wasPrepared: boolean

  constructor(cause: unknown, at: number, wasPrepared: boolean) {
    this.cause = cause
    this.at = at
    this.wasPrepared = wasPrepared
  }
}

/** Statements that go out together. */
export interface PacketContent {
  /** What has to be done before the steps. */
  readonly riding: readonly EncodedStep[]
  readonly steps: readonly EncodedStep[]
  /** The step whose answer is wanted. */
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

/** The driver has these, its types do not. */
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

/** A query of the driver's, which it accepts on a pipelined connection; only the main step's answer is kept. */
class Packet extends DrivenQuery {
  readonly #content: PacketContent
  readonly #prepared: PreparedStatements | undefined
  readonly #uses: (Use | undefined)[] = []
  /** How many steps were answered, with those that ride before them. */
  #doneCount = 0

  constructor(content: PacketContent, prepared: PreparedStatements | undefined, answered: Answered) {
    // The driver is told no name: it would take the first statement that was parsed for the one of that name.
    super(content.steps[content.main]!.text)
    this.#content = content
    this.#prepared = prepared
    this.callback = answered
  }

  submit(connection: Connection): null {
    const { riding, steps, main } = this.#content
    const driven = connection as unknown as Messages
    const { stream } = connection
    stream.cork()
    try {
      for (const step of riding) this.#send(driven, step, false)
      for (let at = 0; at < steps.length; at++) this.#send(driven, steps[at]!, at === main)
      driven.sync()
    } catch (error) {
      // A message is too large. A transaction whose BEGIN was in the packet must not go on as if it had been sent.
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
    for (const use of this.#uses.slice(at)) use?.doubt()
    return new PacketFailure(error, at - this.#content.riding.length, this.#uses[at]?.isPrepared === true)
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
    return this.#doneCount === this.#content.riding.length + this.#content.main
  }
}

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
 * The statements that one connection has prepared. Their number is limited, because each costs the server memory; the
 * least recently used one goes first. Closing an unknown name is no error, so a doubtful one is closed and parsed again.
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
 * Decides which of the handlers' statements are worth preparing: those that repeat. Parsing and planning a small INSERT
 * costs the server as much as executing it. A text that came a few times gets a name; a text that is different for each
 * job never does.
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
