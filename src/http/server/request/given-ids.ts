import { isSignalboxError, SignalboxError } from '../../../core/errors.ts'
import { decodeIdTime } from '../../../core/ids.ts'
import {
  type Added,
  givenId,
  type JobStore,
  type Jobs,
  type JobToAdd,
  sealedFor,
} from '../../../jobs/index.ts'

/** How far the time in an id may be from the server's clock: clocks differ, and clients retry requests. */
const maxSkewMs = 86_400_000
/** The number of parallel look-ups. */
const atOnce = 25

interface AddSealedParts {
  readonly find: JobStore['find']
  readonly addMany: Jobs['addMany']
  /** The request has an Idempotency-Key: `addMany` repeats its first answer. */
  readonly isKeyed: boolean
}

/**
 * Adds jobs. A sealed payload is bound to a job id and opens only under that id, so such a job gets that id. If the
 * store has the job with exactly the same payload, an earlier attempt of this request added it. The server then repeats
 * the answer and does not add the job again, whatever its state. So engines never see the same given id twice. Throws
 * `invalid_argument`, and `conflict` when another job has the id.
 */
export async function addSealed(jobs: readonly JobToAdd[], parts: AddSealedParts): Promise<readonly Added[]> {
  const given = new Map<string, JobToAdd>()
  for (const job of jobs) {
    const id = sealedFor(job.payload)
    if (id === undefined) continue
    if (given.has(id)) throw idTaken(id)
    if (Math.abs(decodeIdTime(id) - Date.now()) > maxSkewMs) throw idTimeTooFar(id)
    given.set(id, job)
  }
  if (given.size === 0) return parts.addMany(jobs)
  return afterEarlierAdds([...given.keys()], async () => {
    const known = await findKnown(given, parts.find)
    try {
      return await addMissing(jobs, known, parts)
    } catch (error) {
      // Another server may have added one of them meanwhile. Then the engine refused all.
      const found = isSignalboxError(error) ? known : await findKnown(given, parts.find)
      if (found.size === known.size) throw error
      return addMissing(jobs, found, parts)
    }
  })
}

async function addMissing(
  jobs: readonly JobToAdd[],
  known: ReadonlySet<string>,
  { addMany, isKeyed }: AddSealedParts,
): Promise<readonly Added[]> {
  const missing = jobs.flatMap((job) => {
    const id = sealedFor(job.payload)
    if (id === undefined) return [job]
    return known.has(id) ? [] : [{ ...job, [givenId]: id }]
  })
  const answers = jobs.map((job) => ({ id: sealedFor(job.payload)!, duplicate: false }))
  if (missing.length === 0) return answers
  // Some of these jobs exist and some do not: an earlier try found a duplicate by unique key, or a job was removed since.
  // Only the Idempotency-Key has the first answer.
  const [first] = known
  if (first !== undefined && !isKeyed) throw idTaken(first)
  const added = await addMany(missing)
  // The key repeats the answer for the whole request, from before any of the jobs existed.
  if (added.length === jobs.length) return added
  if (added.length !== missing.length) throw idTaken(first!)
  let next = 0
  return jobs.map((job, index) =>
    known.has(sealedFor(job.payload) ?? '') ? answers[index]! : added[next++]!,
  )
}

/** The ids that requests are adding. A second request with one of them waits for the first. */
const inFlight = new Map<string, Promise<void>>()

async function afterEarlierAdds<Result>(
  ids: readonly string[],
  work: () => Promise<Result>,
): Promise<Result> {
  for (let at = 0; at < ids.length; at++) {
    const before = inFlight.get(ids[at]!)
    if (before === undefined) continue
    await before
    at = -1
  }
  const { promise, resolve } = Promise.withResolvers<void>()
  for (const id of ids) inFlight.set(id, promise)
  try {
    return await work()
  } finally {
    for (const id of ids) inFlight.delete(id)
    resolve()
  }
}

/** Finds the jobs that exist already. */
async function findKnown(
  given: ReadonlyMap<string, JobToAdd>,
  find: JobStore['find'],
): Promise<ReadonlySet<string>> {
  const entries = [...given]
  const known = new Set<string>()
  for (let at = 0; at < entries.length; at += atOnce) {
    await Promise.all(
      entries.slice(at, at + atOnce).map(async ([id, { kind, queue = 'default', payload }]) => {
        const record = await find(id)
        if (record === undefined) return
        const isSame = record.kind === kind && record.queue === queue
        if (!isSame || record.payload !== JSON.stringify(payload)) throw idTaken(id)
        known.add(id)
      }),
    )
  }
  return known
}

function idTaken(id: string): SignalboxError {
  return new SignalboxError(
    'conflict',
    `This payload is sealed for the job "${id}", which exists already. Nothing was added. Seal the payload for a new id.`,
    { details: { jobId: id } },
  )
}

function idTimeTooFar(id: string): SignalboxError {
  return new SignalboxError(
    'invalid_argument',
    `This payload is sealed for the job "${id}", whose id was not made within a day of the server's clock. Seal the payload for a new id.`,
    { details: { jobId: id } },
  )
}
