import { SignalboxError } from '../../core/errors.ts'
import { isId } from '../../core/ids.ts'

/**
 * What is sealed, as stores keep it: a JSON object with one name, so that every engine, the wire and whoever reads the
 * table sees a JSON value like any other, and can tell. It says whose it is, for a server has to give the job that id;
 * what it says is not believed when it is opened.
 *
 *     {"$sealed":"01k9z3v8qe0m4t9wq3rb5c7xkd:AQJrMdq1…"}      the job's id, and base64 of what the sealer made
 */

const prefix = '{"$sealed":"'
const suffix = '"}'
/** Nothing else may stand in it: a payload of somebody's that only begins so is a payload like any other. */
const wholeForm = /^\{"\$sealed":"[0-9a-z]{26}:[^"\\]*"\}$/

/** How long a job waits whose payload nobody could open here. */
export const sealedDelayMs = 30_000

/** Quick, for every job that is read is asked. */
export function isSealed(json: string): boolean {
  return json.startsWith(prefix) && wholeForm.test(json)
}

/** The same of a value that was read already. */
export function isSealedValue(value: unknown): value is { readonly $sealed: string } {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  if (typeof (value as { $sealed?: unknown }).$sealed !== 'string') return false
  return Object.keys(value).length === 1 && isSealed(JSON.stringify(value))
}

/** What is sealed of a text: one that looks sealed in plain must not do so when it has been opened. */
export function sealable(json: string): string {
  // A space that JSON does not mind.
  return isSealed(json) ? ` ${json}` : json
}

/** The id that a job must have for this payload of it to open; undefined when it is not sealed. */
export function sealedFor(payload: unknown): string | undefined {
  if (!isSealedValue(payload)) return undefined
  const [id] = payload.$sealed.split(':', 1)
  return isId(id) ? id : undefined
}

export function encodeSealed(jobId: string, bytes: Uint8Array): string {
  const base64 = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')
  return `${prefix}${encodeURIComponent(jobId)}:${base64}${suffix}`
}

/** A result that was there and could not be sealed. It is lost; that it was there is not. */
export function encodeLost(jobId: string): string {
  return encodeSealed(jobId, new Uint8Array())
}

export function decodeSealed(json: string): Uint8Array {
  return Buffer.from(json.slice(json.indexOf(':', prefix.length) + 1, -suffix.length), 'base64')
}

/** Why a record was not opened although somebody tried. On the record itself, so that whoever copies it copies this. */
const failure: unique symbol = Symbol('signalbox.sealFailure')

export function noteFailure(record: object, error: SignalboxError): void {
  Object.assign(record, { [failure]: error })
}

function failureOf(record: object): SignalboxError | undefined {
  return (record as { readonly [failure]?: SignalboxError })[failure]
}

/** Why the payload of this record cannot be read: `seal_broken`, else `payload_sealed`. */
export function whySealed(record: { readonly id: string; readonly kind: string }): SignalboxError {
  return failureOf(record) ?? noSealer(record)
}

/** What is shown in its place. */
export interface SealedView {
  readonly sealed: true
  /** `payload_sealed`: there is no key here. `seal_broken`: it was tampered with, or is another job's. */
  readonly code: 'payload_sealed' | 'seal_broken'
}

export function showSealed(record: object): SealedView {
  return {
    sealed: true,
    code: failureOf(record)?.code === 'seal_broken' ? 'seal_broken' : 'payload_sealed',
  }
}

function noSealer({ id, kind }: { readonly id: string; readonly kind: string }): SignalboxError {
  return new SignalboxError(
    'payload_sealed',
    `The payload of job "${id}" (${kind}) is sealed, and this box has no sealer. The job waits for a worker that has one: open(url, { jobs: { sealer } }).`,
    { details: { jobId: id, kind } },
  )
}
