import * as fc from 'fast-check'
import type { ApiRequest, Operation } from './api-driver.ts'
import { fits, type Hints } from './schema-values.ts'

/**
 * Values that requests and answers have shown, by the path they were found under and the name of their field, so that
 * later requests are about things that are there. What was said of one thing together with its token (whose it is, which
 * lock, which job) stays together. Nothing else is known of how the operations belong together.
 */
export class SeenValues {
  readonly #values = new Map<string, string[]>()
  /** Newest last. */
  readonly #held: { readonly place: string; readonly fields: Readonly<Record<string, unknown>> }[] = []

  /** A request that went well. */
  learn(operation: Operation, request: ApiRequest, answer: unknown): void {
    this.#learnAnswer(operation, answer, { ...request.parameters, ...asFields(request.body) })
  }

  #learnAnswer(operation: Operation, part: unknown, request: Readonly<Record<string, unknown>>): void {
    const fields = asFields(part)
    if (['string', 'number'].includes(typeof fields.token)) {
      const said = Object.entries({ ...request, ...fields }).filter(([name]) => together.includes(name))
      this.#held.push({ place: placeOf(operation), fields: Object.fromEntries(said) })
      if (this.#held.length > 200) this.#held.shift()
    }
    for (const [name, value] of Object.entries(fields)) {
      if (typeof value === 'object') this.#learnAnswer(operation, value, request)
      else if (typeof value === 'string' && names.includes(name)) this.#keep(keyOf(operation, name), value)
    }
  }

  #keep(key: string, value: string): void {
    // Clients cannot name Signalbox's own queues.
    if (value.startsWith('signalbox.')) return
    const values = this.#values.get(key) ?? []
    this.#values.set(key, values)
    values.push(value)
    if (values.length > 50) values.shift()
  }

  /** Drawn when it is used, for at the start nothing has been seen. */
  hints(operation: Operation): Hints {
    const seen = (name: string) =>
      fc.nat().map((pick) => {
        const values = this.#values.get(keyOf(operation, name))
        return values === undefined ? 'none' : values[pick % values.length]!
      })
    return (name) => {
      if (name === 'Idempotency-Key') return fc.uuid()
      if (name.endsWith('Ms')) return fc.constantFrom(30_000, '30s', '1.5m')
      if (name === 'name') return seen(placeOf(operation) === 'schedules' ? 'name' : 'queue')
      if (names.includes(name)) return seen(name)
      if (name === 'cron') return fc.constantFrom('0 * * * *', '*/5 8-18 * * 1-5')
      if (name === 'timeZone') return fc.constantFrom('UTC', 'Asia/Shanghai')
      // A list of what was seen one by one.
      const isPlural = name === 'queues' || name === 'kinds'
      return isPlural ? fc.array(seen(name.slice(0, -1)), { minLength: 1, maxLength: 50 }) : undefined
    }
  }

  /** The request about something that is held, in all the fields that say what it is. */
  match(operation: Operation, request: ApiRequest, pick: number): ApiRequest {
    const place = placeOf(operation)
    const held = this.#held.filter((one) => one.place === place).slice(-8)
    if (held.length === 0) return request
    const { fields } = held[pick % held.length]!
    const parameters = { ...request.parameters }
    const body = { ...asFields(request.body) }
    const { properties = {} } = operation.body?.schema ?? {}
    for (const name of together) {
      if (operation.parameters.some((one) => one.name === name)) set(parameters, name, fields[name])
      if (Object.hasOwn(properties, name)) set(body, name, fields[name])
    }
    const isFitting = operation.body !== undefined && fits(operation.body.schema, body)
    return { ...request, parameters, ...(isFitting && { body }) }
  }
}

/** Fields that are looked for by their names. */
const names = ['id', 'name', 'queue', 'kind', 'cursor']
/** Fields that say together what something is. */
const together = [
  'id',
  'token',
  'operation',
  'resource',
  'node',
  'requestId',
  'key',
  'space',
  'Signalbox-Namespace',
]

function placeOf({ path }: Operation): string {
  return path.split('/')[2] ?? ''
}

/** Ids and names are of one kind under one path; those of queues and kinds mean the same everywhere. */
function keyOf(operation: Operation, name: string): string {
  return name === 'id' || name === 'name' || name === 'cursor' ? `${placeOf(operation)} ${name}` : name
}

function asFields(value: unknown): Record<string, unknown> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
}

function set(fields: Record<string, unknown>, name: string, value: unknown): void {
  if (value === undefined) delete fields[name]
  else fields[name] = value
}
