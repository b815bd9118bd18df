import { SignalboxError } from '../core/errors.ts'
import { decodeIdTime } from '../core/ids.ts'
import { type Added, givenId, type JobStore, type Jobs, type JobToAdd, sealedFor } from '../jobs/index.ts'

/** How far the time in an id may be from the server's: clocks differ, and requests are made again. */
const maxSkewMs = 86_400_000
/** So many are looked up at once. */
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
 * and not added again. Throws `invalid_argument`, and `conflict` when another job has the id.
 */
export async function addSealed(
  jobs: readonly JobToAdd[],
  { find, addMany, isKeyed }: AddSealedParts,
): Promise<readonly Added[]> {
  const given = new Map<string, JobToAdd>()
  for (const job of jobs) {
    const id = sealedFor(job.payload)
    if (id === undefined) continue
    if (given.has(id)) throw taken(id)
    if (Math.abs(decodeIdTime(id) - Date.now()) > maxSkewMs) throw notOfToday(id)
    given.set(id, job)
  }
  const known = await findKnown(given, find)
  if (known > 0 && known === jobs.length) return [...given.keys()].map((id) => ({ id, duplicate: false }))
  // Those that are missing had the unique key of another job, or were removed: only a key knows what was answered.
  if (known > 0 && !isKeyed) throw taken([...given.keys()][0]!)
  return addMany(
    jobs.map((job) => {
      const id = sealedFor(job.payload)
      return id === undefined ? job : { ...job, [givenId]: id }
    }),
  )
}

/** How many of them are there already. */
async function findKnown(given: ReadonlyMap<string, JobToAdd>, find: JobStore['find']): Promise<number> {
  const entries = [...given]
  let known = 0
  for (let at = 0; at < entries.length; at += atOnce) {
    await Promise.all(
      entries.slice(at, at + atOnce).map(async ([id, { kind, queue = 'default', payload }]) => {
        const record = await find(id)
        if (record === undefined) return
        const isSame = record.kind === kind && record.queue === queue
        if (!isSame || record.payload !== JSON.stringify(payload)) throw taken(id)
        known++
      }),
    )
  }
  return known
}

function taken(id: string): SignalboxError {
  return new SignalboxError(
    'conflict',
    `This payload is sealed for the job "${id}", which is there already. Nothing was added; seal it anew.`,
    { details: { jobId: id } },
  )
}

function notOfToday(id: string): SignalboxError {
  return new SignalboxError(
    'invalid_argument',
    `This payload is sealed for the job "${id}", whose id was not made within a day of the server's clock. Seal it anew.`,
    { details: { jobId: id } },
  )
}
