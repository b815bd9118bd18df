import { type Clock, systemClock } from '../../../core/clock.ts'
import { checkJson, encodeJson, maxJsonBytes, parseJson } from '../../../core/json.ts'
import type { NodeFrame, ServiceOffer } from '../../../dispatch/index.ts'
import { type FrameProblem, nodeFrameSchemas, nodeProtocol, type PingFrame } from '../../contract/index.ts'
import { checkOf, describeValidationError, type Subject } from '../request/validate.ts'

/**
 * Decodes the text of a message to a trusted frame: of a known type, complete, within its limits, and with known fields
 * only. A fault becomes a refusal, never an exception.
 */
type ReadFrame = { readonly frame: NodeFrame | PingFrame } | { readonly refusal: FrameRefusal }

/** Why the server refuses a frame. */
export interface FrameRefusal {
  readonly code: FrameProblem
  readonly message: string
  /** The server could not understand later messages of this socket either. */
  readonly isFatal: boolean
}

type Fields = Readonly<Record<string, unknown>>
type Shaped = { readonly type: NodeFrame['type'] | 'ping' } & Fields

export function readNodeFrame(text: string): ReadFrame {
  const value = parseJson(text)
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return refuse('invalid_frame', 'A message must be one JSON object with a "type".', true)
  const { type } = value as Fields
  if (typeof type !== 'string') return refuse('invalid_frame', 'type is missing; it must be text.', true)
  if (!Object.hasOwn(nodeFrameSchemas, type))
    return refuse('unknown_type', `There is no message of the type ${JSON.stringify(type.slice(0, 60))}.`)
  const shaped = value as Shaped
  const schema = nodeFrameSchemas[shaped.type]
  if (!checkOf(schema)(shaped)) {
    const subject: Subject = { what: `The message ${type}`, part: 'field' }
    return refuse('invalid_frame', describeValidationError(subject, schema, shaped).text)
  }
  const fault = findFault(shaped)
  if (fault !== undefined) return refuse('invalid_frame', fault)
  if (shaped.type === 'hello' && (shaped.protocol ?? nodeProtocol) !== nodeProtocol)
    return refuse(
      'unsupported_protocol',
      `This server speaks protocol ${nodeProtocol}, not ${shaped.protocol}.`,
      true,
    )
  return { frame: decode(shaped, text.length) }
}

function refuse(code: FrameProblem, message: string, isFatal = false): ReadFrame {
  return { refusal: { code, message, isFatal } }
}

/** Checks the rules that a schema cannot express. Returns the fault. */
function findFault({ type, taskId, nodeId, instanceId, services, labels }: Shaped): string | undefined {
  if (isBroken(taskId) || isBroken(nodeId) || isBroken(instanceId))
    return `${type}: an id contains half of a surrogate pair.`
  if (type !== 'hello' && type !== 'update') return undefined
  const offers = (services ?? []) as readonly ServiceOffer[]
  if (new Set(offers.map(({ name }) => name)).size < offers.length)
    return 'services has two services of the same name.'
  try {
    encodeJson('services', offers)
    encodeJson('labels', labels)
  } catch (error) {
    return (error as Error).message
  }
  return undefined
}

function isBroken(id: unknown): boolean {
  return typeof id === 'string' && !id.isWellFormed()
}

/** Makes text that every store accepts. */
function storableText(text: unknown): string | null {
  return typeof text === 'string' ? text.toWellFormed().replaceAll('\0', '') : null
}

/** Decodes a field whose type the schema has checked. Without a decoder, a missing field becomes null. */
const decoders: Readonly<Record<string, (value: unknown) => unknown>> = {
  protocol: () => nodeProtocol,
  services: offersOf,
  labels: (labels) => (labels ? { ...(labels as object) } : null),
  load: loadOf,
  reason: storableText,
  note: storableText,
  error: failureOf,
  retryable: (value) => value ?? true,
}

/** The known fields of each frame. Others are dropped. */
const fieldsByType = new Map(
  Object.entries(nodeFrameSchemas).map(([type, schema]) => [
    type,
    Object.keys((schema as { readonly properties?: object }).properties ?? {}),
  ]),
)

function decode(shaped: Shaped, length: number): NodeFrame | PingFrame {
  const frame: Record<string, unknown> = { type: shaped.type }
  for (const name of fieldsByType.get(shaped.type)!) {
    const value = shaped[name]
    const decoder = decoders[name]
    frame[name] = decoder === undefined ? (value ?? null) : decoder(value)
  }
  const read = frame as unknown as NodeFrame | PingFrame
  if (read.type === 'hello') return { ...read, labels: read.labels ?? {} }
  return read.type === 'task.result' ? withValidOutput(read, length) : read
}

function failureOf(error: unknown): object {
  if (typeof error === 'string') return { message: storableText(error) }
  const { code, message } = error as Fields
  return { ...(code === undefined ? {} : { code: storableText(code) }), message: storableText(message) }
}

/** A node would resend a result that no store accepts for ever, so the server turns it into a failure. */
function withValidOutput(
  frame: Extract<NodeFrame, { readonly type: 'task.result' }>,
  length: number,
): NodeFrame {
  const { taskId, attempt, output } = frame
  try {
    // The encoded output may be longer than the frame: numbers lose their exponents. A short frame stays within the
    // limit.
    if (length * maxGrowth <= maxJsonBytes) checkJson('output', output)
    else encodeJson('output', output)
    return frame
  } catch (thrown) {
    const error = { code: 'invalid_output', message: (thrown as Error).message }
    return { type: 'task.fail', taskId, attempt, error, retryable: false }
  }
}

/** The most bytes that a character of a frame becomes: `1e20` becomes 21 digits, other characters up to three bytes. */
const maxGrowth = 6

function offersOf(services: unknown): readonly ServiceOffer[] | null {
  if (!Array.isArray(services)) return null
  return services.map(({ name, slots, tags = {} }: ServiceOffer) => ({ name, slots, tags: { ...tags } }))
}

function loadOf(load: unknown): object {
  const { cpu = null, gpu = null, memory = null } = (load ?? {}) as Fields
  return { cpu, gpu, memory }
}

/** A rate: `burst` at once, and `perSecond` in the long run. */
interface TokenBucketOptions {
  readonly perSecond: number
  readonly burst: number
  readonly clock?: Clock
}

/** A token bucket. It may be overdrawn: `spend` then returns how long it takes to refill. */
export class TokenBucket {
  readonly #perMs: number
  readonly #burst: number
  readonly #clock: Clock
  #left: number
  #readAt: number

  constructor({ perSecond, burst, clock = systemClock }: TokenBucketOptions) {
    this.#perMs = perSecond / 1_000
    this.#burst = burst
    this.#clock = clock
    this.#left = burst
    this.#readAt = clock.now()
  }

  /** Takes one token. Returns 0, or when the bucket is overdrawn, the milliseconds until it is refilled. */
  spend(): number {
    // Reads the clock only when the bucket seems empty: for most sockets it never is.
    if (--this.#left >= 0) return 0
    const now = this.#clock.now()
    this.#left = Math.min(this.#burst, this.#left + (now - this.#readAt) * this.#perMs)
    this.#readAt = now
    return this.#left >= 0 ? 0 : Math.ceil(-this.#left / this.#perMs)
  }
}
