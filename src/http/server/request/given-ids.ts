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

/** How far the time in an id may be from the server's: clocks differ, and requests are made again. */
const maxSkewMs = 86_400_000
/** How many ids are looked up at once. */
const atOnce = 25

export interface AddSealedParts {
  readonly find: JobStore['find']
  readonly addMany: Jobs['addMany']
  /** `addMany` answers a request that it knows by its key as it did the first time. */
  readonly isKeyed: boolean
}

/**
 * Adds jobs, those that a box sealed with the ids they are bound to: under another one they would not open. What is
 * there already, to the last byte of its seal, was brought by the same request before: it is answered as it was then,
 * and never added again, whatever has become of it; engines need not know what an id means that comes twice. Throws
 * `invalid_argument`, and `conflict` when another job has the id.
 */
export async function addSealed(jobs: readonly JobToAdd[], parts: AddSealedParts): Promise<readonly Added[]> {
  const given = new Map<string, JobToAdd>()
  for (const job of jobs) {
    const id = sealedFor(job.payload)
    if (id === undefined) continue
    if (given.has(id)) throw taken(id)
    if (Math.abs(decodeIdTime(id) - Date.now()) > maxSkewMs) throw notOfToday(id)
    given.set(id, job)
  }
  if (given.size === 0) return parts.addMany(jobs)
  return oneAfterTheOther([...given.keys()], async () => {
    const known = await findKnown(given, parts.find)
    try {
      return await addMissing(jobs, known, parts)
    } catch (error) {
      // Another server may have been faster with one of them; then the engine refused all.
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
  // Those that are missing had the unique key of another job, or were removed: only a key knows what was answered.
  const [first] = known
  if (first !== undefined && !isKeyed) throw taken(first)
  const added = await addMany(missing)
  // The key knows the whole request, from when none of them was there.
  if (added.length === jobs.length) return added
  if (added.length !== missing.length) throw taken(first!)
  let next = 0
  return jobs.map((job, index) =>
    known.has(sealedFor(job.payload) ?? '') ? answers[index]! : added[next++]!,
  )
}

/** What is being added, by its ids: who brings one of them too looks only when it is there. */
const underWay = new Map<string, Promise<void>>()

async function oneAfterTheOther<Result>(
  ids: readonly string[],
  work: () => Promise<Result>,
): Promise<Result> {
  for (let at = 0; at < ids.length; at++) {
    const before = underWay.get(ids[at]!)
    if (before === undefined) continue
    await before
    at = -1
  }
  const { promise, resolve } = Promise.withResolvers<void>()
  for (const id of ids) underWay.set(id, promise)
  try {
    return await work()
  } finally {
    for (const id of ids) underWay.delete(id)
    resolve()
  }
}

/** Those of them that are there already. */
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
        if (!isSame || record.payload !== JSON.stringify(payload)) throw taken(id)
        known.add(id)
      }),
    )
  }
  return known
}

function taken(id: string): SignalboxError {
  return new SignalboxError(
    'conflict',
    `This payload is sealed for the job "${id}", which exists already. Nothing was added. Seal the payload for a new id.`,
    { details: { jobId: id } },
  )
}

function notOfToday(id: string): SignalboxError {
  return new SignalboxError(
    'invalid_argument',
    `This payload is sealed for the job "${id}", whose id was not made within a day of the server's clock. Seal the payload for a new id.`,
    { details: { jobId: id } },
  )
}
