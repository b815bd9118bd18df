import pg, { type Connection, type PoolClient, Query, type QueryResult } from 'pg'
import { PacketBytes, type Value } from './packet-bytes.ts'
import type { PreparedStatements, Use } from './prepared.ts'

/** One statement of a packet. With a name it is prepared under it, once per connection. */
export interface Step {
  readonly text: string
  readonly values?: readonly unknown[]
  readonly name?: string | undefined
}

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
 * Sends statements of which the server answers all together: the driver's own way, each with an answer of its own, costs
 * both sides a write, a read and a wake-up for every one of them. Behind a step that fails the server skips the rest of
 * the packet, a COMMIT too. Answers the result of the main step; rejects with a PacketFailure.
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
type Answered = (error: Error | null | undefined, result?: unknown) => void
const DrivenQuery = Query as unknown as new (text: string) => Driven
const { prepareValue } = (pg as unknown as { utils: { prepareValue(value: unknown): Value } }).utils

/** One for all: a packet is put together and sent without a pause. */
const bytes = new PacketBytes()

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

  submit({ stream }: Connection): null {
    const { riding, steps, main } = this.#content
    let packet: Buffer
    try {
      for (const step of riding) this.#put(step, false)
      for (let at = 0; at < steps.length; at++) this.#put(steps[at]!, at === main)
      packet = bytes.sync()
    } catch (error) {
      // Too large to be put together. Its first half must not be the beginning of another's; and a transaction whose
      // BEGIN was in it must not go on as if it had been sent.
      bytes.clear()
      stream.destroy()
      throw error
    }
    if (stream.writable) stream.write(packet)
    return null
  }

  #put({ name, text, values = noValues }: EncodedStep, isMain: boolean): void {
    const use = name === undefined ? undefined : this.#prepared?.use(name)
    this.#uses.push(use)
    for (const closed of use?.closed ?? []) bytes.close(closed)
    const statement = use === undefined ? '' : name!
    if (use?.isPrepared !== true) bytes.parse(statement, text)
    bytes.bind(statement, values)
    if (isMain) bytes.describe()
    bytes.execute()
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
