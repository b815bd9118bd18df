import { isSignalboxError } from '../../core/errors.ts'
import type { Job } from '../job.ts'
import type { JobRecord } from '../job-store.ts'
import { decodeSealed, isSealed, isSealedValue, noteFailure, showSealed } from './sealed-text.ts'
import { openBytes, type SealedPart, type Sealer, sealBroken } from './sealer.ts'

type Sealable = Pick<JobRecord, 'id' | 'queue' | 'kind' | 'payload' | 'result'>

const decoder = new TextDecoder('utf-8', { fatal: true })

/**
 * The record with what it carries in plain. What cannot be opened stays as it is, with a note why (`whySealed`); never
 * throws. A promise only when the sealer answers later.
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
      // What opened and is no text is nobody's payload.
      const why = isSignalboxError(error) ? error : sealBroken(context)
      // The payload's trouble is the one that matters: it decides what becomes of the job.
      if (part === 'payload' || !hasPayload) noteFailure(opened, why)
    }
    try {
      const sealed = decodeSealed(kept)
      // It could not be sealed when it was there, so there is nothing to ask for.
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

/** The same for a job that a server showed; without a sealer, what is sealed is shown as such. */
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
