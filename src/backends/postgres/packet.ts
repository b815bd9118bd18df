import pg, { type Connection, type PoolClient, Query, type QueryResult } from 'pg'
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
export function encodeStep(step: Step): EncodedStep {
  return step.values === undefined
    ? (step as EncodedStep)
    : { ...step, values: step.values.map((value) => prepareValue(value)) }
}

/** What came of a packet that failed. */
export class PacketFailure {
  /** What the database or the driver said. */
  readonly cause: unknown
  /** Which step failed; those before it were done, those after it were not looked at. */
  readonly at: number
  /** Whether that step was prepared by an earlier packet, so that it may have been made for tables as they were. */
  readonly wasPrepared: boolean

  constructor(cause: unknown, at: number, wasPrepared: boolean) {
    this.cause = cause
    this.at = at
    this.wasPrepared = wasPrepared
  }
}

/**
 * Sends statements of which the server answers all together: the driver's own way, each with an answer of its own, costs
 * both sides a write, a read and a wake-up for every one of them. Behind a step that fails the server skips the rest of
 * the packet, a COMMIT too. Answers the result of the step that is the `main` one; rejects with a PacketFailure.
 */
export function sendPacket(
  client: PoolClient,
  prepared: PreparedStatements | undefined,
  steps: readonly EncodedStep[],
  main: number,
): Promise<QueryResult> {
  return new Promise((resolve, reject) => {
    const packet = new Packet(steps, main, prepared, (error, result) => {
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
type Value = string | Buffer | null
const DrivenQuery = Query as unknown as new (text: string) => Driven
const { prepareValue } = (pg as unknown as { utils: { prepareValue(value: unknown): Value } }).utils

interface Wire {
  readonly stream: { cork(): void; uncork(): void }
  close(statement: { readonly type: 'S'; readonly name: string }): void
  parse(statement: { readonly name: string; readonly text: string }): void
  bind(statement: { readonly statement: string; readonly values: readonly Value[] | undefined }): void
  describe(portal: { readonly type: 'P'; readonly name: '' }): void
  execute(portal: { readonly portal: '' }): void
  sync(): void
}

/** A query of the driver's, which it accepts on a pipelined connection; only the main step's answer is kept. */
class Packet extends DrivenQuery {
  readonly #steps: readonly EncodedStep[]
  readonly #main: number
  readonly #prepared: PreparedStatements | undefined
  readonly #uses: (Use | undefined)[] = []
  #doneCount = 0

  constructor(
    steps: readonly EncodedStep[],
    main: number,
    prepared: PreparedStatements | undefined,
    answered: Answered,
  ) {
    // The driver is told no name: it would take the first statement that was parsed for the one of that name.
    super(steps[main]!.text)
    this.#steps = steps
    this.#main = main
    this.#prepared = prepared
    this.callback = answered
  }

  submit(connection: Connection): null {
    const wire = connection as unknown as Wire
    wire.stream.cork()
    try {
      for (let at = 0; at < this.#steps.length; at++) this.#send(wire, at)
      wire.sync()
    } finally {
      wire.stream.uncork()
    }
    return null
  }

  #send(wire: Wire, at: number): void {
    const { name, text, values } = this.#steps[at]!
    const use = name === undefined ? undefined : this.#prepared?.use(name)
    this.#uses.push(use)
    for (const closed of use?.closed ?? []) wire.close({ type: 'S', name: closed })
    const statement = use === undefined ? '' : name!
    if (use?.isPrepared !== true) wire.parse({ name: statement, text })
    wire.bind({ statement, values })
    if (at === this.#main) wire.describe({ type: 'P', name: '' })
    wire.execute({ portal: '' })
  }

  failure(error: unknown): PacketFailure {
    const at = this.#doneCount
    for (const use of this.#uses.slice(at)) use?.doubt()
    return new PacketFailure(error, at, this.#uses[at]?.isPrepared === true)
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
    return this.#doneCount === this.#main
  }
}
