import { type Clock, systemClock } from '../../../core/clock.ts'
import { checkJson, encodeJson, maxJsonBytes, parseJson } from '../../../core/json.ts'
import type { NodeFrame, ServiceOffer } from '../../../dispatch/index.ts'
import { type FrameProblem, nodeFrameSchemas, nodeProtocol, type PingFrame } from '../../contract/index.ts'
import { checkOf, describeValidationError, type Subject } from '../request/validate.ts'

/**
 * From text to a trusted frame: of a known type, complete, within its bounds, and with known fields only. Any fault is
 * an answer, never an exception.
 */
export type ReadFrame = { readonly frame: NodeFrame | PingFrame } | { readonly refusal: FrameRefusal }

/** Why a frame is not taken. */
export interface FrameRefusal {
  readonly code: FrameProblem
  readonly message: string
  /** Nothing that comes after it would be understood either. */
  readonly isFatal: boolean
}

type Fields = Readonly<Record<string, unknown>>
type Shaped = { readonly type: NodeFrame['type'] | 'ping' } & Fields

/** Reads one message. */
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
  const unsound = unsoundness(shaped)
  if (unsound !== undefined) return refuse('invalid_frame', unsound)
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

/** What no schema can say. */
function unsoundness({ type, taskId, nodeId, instanceId, services, labels }: Shaped): string | undefined {
  if (isBroken(taskId) || isBroken(nodeId) || isBroken(instanceId))
    return `${type}: an id has half of a surrogate pair.`
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

/** How each field of a frame is read, also where it is missing. The schema has checked the types; other fields are dropped. */
type Decoder = (value: unknown) => unknown

const asIs: Decoder = (value) => value
const orNull: Decoder = (value) => value ?? null
/** Text that every store can keep. */
const sound: Decoder = (text) => (typeof text === 'string' ? text.toWellFormed().replaceAll('\0', '') : null)
const ofAttempt = { taskId: asIs, attempt: asIs }

const decoders: Readonly<Record<Shaped['type'], Readonly<Record<string, Decoder>>>> = {
  hello: {
    nodeId: asIs,
    instanceId: asIs,
    services: offersOf,
    labels: (labels) => ({ ...(labels as object) }),
    running: orNull,
    protocol: () => nodeProtocol,
  },
  heartbeat: { load: loadOf, running: orNull, countedSeq: orNull },
  'task.accept': ofAttempt,
  'task.reject': { ...ofAttempt, reason: sound, retryAfterMs: orNull },
  'task.progress': { ...ofAttempt, percent: orNull, note: sound },
  'task.result': { ...ofAttempt, output: orNull },
  'task.fail': { ...ofAttempt, error: failureOf, retryable: (value) => value ?? true },
  update: { services: offersOf, labels: (labels) => (labels ? { ...(labels as object) } : null) },
  bye: {},
  ping: {},
}

function decode(said: Shaped, length: number): NodeFrame | PingFrame {
  const frame: Record<string, unknown> = { type: said.type }
  const fields = decoders[said.type]
  for (const name in fields) frame[name] = fields[name]!(said[name])
  const read = frame as unknown as NodeFrame | PingFrame
  return read.type === 'task.result' ? keepable(read, length) : read
}

function failureOf(error: unknown): object {
  if (typeof error === 'string') return { message: sound(error) }
  const { code, message } = error as Fields
  return { ...(code === undefined ? {} : { code: sound(code) }), message: sound(message) }
}

/** A result that no store could keep would come again for ever, so it counts as the failure that it is. */
function keepable(frame: Extract<NodeFrame, { readonly type: 'task.result' }>, length: number): NodeFrame {
  const { taskId, attempt, output } = frame
  try {
    // Written out it may be longer than it came, for numbers lose their exponents; a short one stays within bounds.
    if (length * maxGrowth <= maxJsonBytes) checkJson('output', output)
    else encodeJson('output', output)
    return frame
  } catch (thrown) {
    const error = { code: 'invalid_output', message: (thrown as Error).message }
    return { type: 'task.fail', taskId, attempt, error, retryable: false }
  }
}

/** How many bytes a character of a frame becomes at most: `1e20` is 21 digits, and other characters are up to three. */
const maxGrowth = 6

function offersOf(services: unknown): readonly ServiceOffer[] | null {
  if (!Array.isArray(services)) return null
  return services.map(({ name, slots, tags = {} }: ServiceOffer) => ({ name, slots, tags: { ...tags } }))
}

function loadOf(load: unknown): object {
  const { cpu = null, gpu = null, memory = null } = (load ?? {}) as Fields
  return { cpu, gpu, memory }
}

/** How often something may happen: `burst` at once, and `perSecond` in the long run. */
export interface PaceOptions {
  readonly perSecond: number
  readonly burst: number
  readonly clock?: Clock
}

/** A bucket that fills by the time and is emptied by use. It may be overdrawn; how long that takes to mend is told. */
export class Pace {
  readonly #perMs: number
  readonly #burst: number
  readonly #clock: Clock
  #left: number
  #readAt: number

  constructor({ perSecond, burst, clock = systemClock }: PaceOptions) {
    this.#perMs = perSecond / 1_000
    this.#burst = burst
    this.#clock = clock
    this.#left = burst
    this.#readAt = clock.now()
  }

  /** Takes one; answers the milliseconds until there is one again, 0 when there is. */
  spend(): number {
    // The clock is read only when the bucket seems empty: most of those who come never get there.
    if (--this.#left >= 0) return 0
    const now = this.#clock.now()
    this.#left = Math.min(this.#burst, this.#left + (now - this.#readAt) * this.#perMs)
    this.#readAt = now
    return this.#left >= 0 ? 0 : Math.ceil(-this.#left / this.#perMs)
  }
}
