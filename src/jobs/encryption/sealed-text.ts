import { isSignalboxError, SignalboxError } from '../../core/errors.ts'
import { isId } from '../../core/ids.ts'
import type { Job } from '../job.ts'
import type { JobRecord } from '../job-store.ts'
import { openBytes, type SealedPart, type Sealer, sealBroken } from './sealer.ts'

/**
 * The stored form of sealed bytes: a JSON object with one field, so that every engine, the wire and readers of the
 * table see valid JSON and recognise it. It names the job's id, because a server must give the job that id. Opening the
 * bytes checks the id independently.
 *
 *     {"$sealed":"01k9z3v8qe0m4t9wq3rb5c7xkd:AQJrMdq1…"}      the job's id, and base64 of the sealed bytes
 */

const prefix = '{"$sealed":"'
const suffix = '"}'
/** The whole text must match: a user's payload that only begins with the prefix is a plain payload. */
const wholeForm = /^\{"\$sealed":"[0-9a-z]{26}:[^"\\]*"\}$/

/** The delay of a job that this process could not open. */
export const sealedDelayMs = 30_000

/** Fast, because it runs for every job that is read. */
export function isSealed(json: string): boolean {
  return json.startsWith(prefix) && wholeForm.test(json)
}

/** The same for a parsed value. */
export function isSealedValue(value: unknown): value is { readonly $sealed: string } {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return false
  if (typeof (value as { $sealed?: unknown }).$sealed !== 'string') return false
  return Object.keys(value).length === 1 && isSealed(JSON.stringify(value))
}

/** Changes a plain text that looks sealed, so that it does not look sealed after opening. */
export function sealable(json: string): string {
  // JSON allows a space at the start.
  return isSealed(json) ? ` ${json}` : json
}

/** The id that the job of this payload must have; undefined if the payload is not sealed. */
export function sealedFor(payload: unknown): string | undefined {
  if (!isSealedValue(payload)) return undefined
  const [id] = payload.$sealed.split(':', 1)
  return isId(id) ? id : undefined
}

export function encodeSealed(jobId: string, bytes: Uint8Array): string {
  const base64 = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')
  return `${prefix}${encodeURIComponent(jobId)}:${base64}${suffix}`
}

/** Stands for a lost result, which could not be sealed. */
export function encodeLost(jobId: string): string {
  return encodeSealed(jobId, new Uint8Array())
}

export function decodeSealed(json: string): Uint8Array {
  return Buffer.from(json.slice(json.indexOf(':', prefix.length) + 1, -suffix.length), 'base64')
}

/** The error of a record that could not be opened. It is a field of the record, so that copies have it too. */
const failure: unique symbol = Symbol('signalbox.sealFailure')

export function recordFailure(record: object, error: SignalboxError): void {
  Object.assign(record, { [failure]: error })
}

function failureOf(record: object): SignalboxError | undefined {
  return (record as { readonly [failure]?: SignalboxError })[failure]
}

/** Why the payload of this record cannot be read: `seal_broken`, else `payload_sealed`. */
export function whySealed(record: { readonly id: string; readonly kind: string }): SignalboxError {
  return failureOf(record) ?? noSealer(record)
}

/** Shown in place of sealed data. */
export interface SealedView {
  readonly sealed: true
  /** `payload_sealed`: this process has no key. `seal_broken`: the data was changed, or belongs to another job. */
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

type Sealable = Pick<JobRecord, 'id' | 'queue' | 'kind' | 'payload' | 'result'>

const decoder = new TextDecoder('utf-8', { fatal: true })

/**
 * Opens the payload and the result of a record. A part that cannot be opened stays sealed, and `whySealed` has the
 * reason. Never throws. Returns a promise only if the sealer does.
 */
export function openSealed<Kept extends Sealable>(
  sealer: Sealer,
  record: Kept,
  timeoutMs?: number,
): Kept | Promise<Kept> {
  const hasPayload = isSealed(record.payload)
  const hasResult = record.result !== null && isSealed(record.result)
  if (!hasPayload && !hasResult) return record
  const opened = { ...record } as Kept & { payload: string; result: string | null }
  const { queue, kind, id: jobId } = record

  const open = (part: SealedPart, kept: string): Promise<void> | undefined => {
    const context = { part, queue, kind, jobId }
    const done = (bytes: Uint8Array): undefined => {
      opened[part] = decoder.decode(bytes)
    }
    const failed = (error: unknown): undefined => {
      // Any other error is the decoder's: the bytes opened, but are not text.
      const why = isSignalboxError(error) ? error : sealBroken(context)
      // The payload's error wins over the result's, because it decides what happens to the job.
      if (part === 'payload' || !hasPayload) recordFailure(opened, why)
    }
    try {
      const sealed = decodeSealed(kept)
      // An empty text stands for a lost result.
      if (sealed.length === 0) return failed(sealBroken(context))
      const bytes = openBytes(sealer, sealed, context, timeoutMs)
      return bytes instanceof Promise ? bytes.then(done).catch(failed) : done(bytes)
    } catch (error) {
      return failed(error)
    }
  }

  const waits = [
    hasPayload ? open('payload', record.payload) : undefined,
    hasResult ? open('result', record.result!) : undefined,
  ].filter((wait) => wait !== undefined)
  return waits.length === 0 ? opened : Promise.all(waits).then(() => opened)
}

/** The same for a job from a server. Without a sealer, sealed parts are shown as sealed. */
export async function openShown<Shown extends Job>(sealer: Sealer | undefined, job: Shown): Promise<Shown> {
  const isPayloadSealed = isSealedValue(job.payload)
  const isResultSealed = isSealedValue(job.result)
  if (!isPayloadSealed && !isResultSealed) return job
  const { id, queue, kind } = job
  const kept: Sealable = {
    ...{ id, queue, kind },
    payload: isPayloadSealed ? JSON.stringify(job.payload) : 'null',
    result: isResultSealed ? JSON.stringify(job.result) : null,
  }
  const opened = sealer === undefined ? kept : await openSealed(sealer, kept)
  const read = (json: string): unknown => (isSealed(json) ? showSealed(opened) : JSON.parse(json))
  return {
    ...job,
    payload: isPayloadSealed ? read(opened.payload) : job.payload,
    result: isResultSealed ? read(opened.result!) : job.result,
  }
}
