import { setNewest } from '../../core/newest-entries.ts'
import { isReserved } from '../api/add-options.ts'
import { decodeError } from '../decode-job.ts'
import {
  type ClaimedRecord,
  forwardJobStore,
  type JobStore,
  type NewJob,
  type StoreTransaction,
  type Verdict,
} from '../job-store.ts'
import { nameOfLease } from '../worker/lease-renewer.ts'
import { encodeLost, encodeSealed, openSealed, sealable } from './sealed-text.ts'
import { type SealContext, type Sealer, sealBytes, sealTimeoutMs } from './sealer.ts'

/** The most answers of a slow sealer that the store awaits at once. */
const maxConcurrent = 100
/** The most claims whose queue and kind are remembered. For older claims, they are read from the store. */
const maxHeld = 10_000

const encoder = new TextEncoder()

type Owner = Pick<SealContext, 'queue' | 'kind'>

/**
 * A job store that seals payloads and results on their way in and opens them on their way out. Handlers, schemas and
 * searches above it see plain text; the store below it never does.
 *
 * Jobs that were added without a sealer stay readable. A job that cannot be opened is returned as stored, and
 * `whySealed` has the reason. So it does not affect the other jobs of the call.
 */
export function createSealedJobStore(store: JobStore, sealer: Sealer): JobStore {
  /** By lease. */
  const held = new Map<string, Owner>()
  /** A repeated verdict must have the same sealed text, because stores recognise it by the text. */
  const sealedVerdicts = new WeakMap<Verdict, Verdict>()

  function remember({ id: jobId, token, queue, kind }: ClaimedRecord): void {
    setNewest(held, nameOfLease({ jobId, token }), { queue, kind }, maxHeld)
  }

  function sealJob(job: NewJob): NewJob | Promise<NewJob> {
    // Servers work on Signalbox's own queues, and have no key.
    if (isReserved(job.queue)) return job
    const context: SealContext = { part: 'payload', queue: job.queue, kind: job.kind, jobId: job.id }
    const sealed = sealBytes(sealer, encoder.encode(sealable(job.payload)), context)
    const withBytes = (bytes: Uint8Array): NewJob => ({ ...job, payload: encodeSealed(job.id, bytes) })
    return sealed instanceof Promise ? sealed.then(withBytes) : withBytes(sealed)
  }

  async function sealVerdict(verdict: Verdict): Promise<Verdict> {
    const { result, error, jobId } = verdict
    if (result === null && error === null) return verdict
    const before = sealedVerdicts.get(verdict)
    if (before !== undefined) return before
    if (result === null) {
      const kept = withoutQuotes(jobId, error!)
      return kept === error ? verdict : rememberSealed(verdict, { ...verdict, error: kept })
    }
    const { queue, kind } = held.get(nameOfLease(verdict)) ?? (await store.find(jobId)) ?? gone
    if (isReserved(queue)) return verdict
    let kept: string
    try {
      const context: SealContext = { part: 'result', queue, kind, jobId }
      kept = encodeSealed(jobId, await sealBytes(sealer, encoder.encode(sealable(result)), context))
    } catch {
      // The work is done, so the job has not failed. The result must not be stored in plain.
      kept = encodeLost(jobId)
    }
    return rememberSealed(verdict, { ...verdict, result: kept })
  }

  function rememberSealed(verdict: Verdict, sealed: Verdict): Verdict {
    sealedVerdicts.set(verdict, sealed)
    return sealed
  }

  const sealing = (work: (tx: StoreTransaction) => Promise<Verdict>) => async (tx: StoreTransaction) =>
    sealVerdict(await work(tx))

  return {
    ...forwardJobStore(store),

    add: async (jobs, tx, wakeUps) => store.add(await inBatches(jobs, sealJob), tx, wakeUps),

    ...(store.addClaimed && {
      async addClaimed(job, request) {
        const record = await store.addClaimed!(await sealJob(job), request)
        if (record === undefined) return undefined
        remember(record)
        return { ...record, payload: job.payload }
      },
    }),

    async claim(request) {
      const records = await store.claim(request)
      for (const record of records) remember(record)
      // No worker renews these leases yet, so all of them share one time limit. A job that does not open within it is
      // delayed, which is better than a lost lease.
      const until = performance.now() + Math.min(sealTimeoutMs, request.leaseMs / 3)
      const leftMs = () => Math.max(1, Math.ceil(until - performance.now()))
      return inBatches(records, (record) => openSealed(sealer, record, leftMs()))
    },

    settle: async (verdicts) => store.settle(await inBatches(verdicts, sealVerdict)),
    settleIn: async (tx, verdict) => store.settleIn(tx, await sealVerdict(verdict)),
    transact: (work, options) => store.transact(sealing(work), options),
    transactAll: (works, options) => store.transactAll(works.map(sealing), options),

    async find(id) {
      const record = await store.find(id)
      return record && openSealed(sealer, record)
    },

    list: async (query) => inBatches(await store.list(query), (record) => openSealed(sealer, record)),
  }
}

/** The owner of a job that is gone. The store writes nothing for such a job. */
const gone: Owner = { queue: '', kind: '' }

/** Returns the answers of all steps, in order. Awaits at most a hundred promises at a time. */
async function inBatches<Item, Answer>(
  items: readonly Item[],
  step: (item: Item) => Answer | Promise<Answer>,
): Promise<readonly Answer[]> {
  const answers: Answer[] = []
  for (let at = 0; at < items.length; at += maxConcurrent) {
    const turn: (Answer | Promise<Answer>)[] = []
    try {
      for (const item of items.slice(at, at + maxConcurrent)) turn.push(step(item))
    } catch (error) {
      // Nothing awaits the other promises now, so their rejections must be handled here.
      for (const answer of turn) if (answer instanceof Promise) answer.catch(() => undefined)
      throw error
    }
    const isLater = turn.some((answer) => answer instanceof Promise)
    answers.push(...(isLater ? await Promise.all(turn) : (turn as Answer[])))
  }
  return answers
}

/**
 * Errors are stored in plain, because operators read them. But the message of a schema quotes the payload, as in
 * `Expected "none" but received "4111…"`. So only the code of such an error is stored; the worker's events have the
 * whole message.
 */
function withoutQuotes(jobId: string, json: string): string {
  if (!codes.some((code) => json.includes(`"${code}"`))) return json
  const { code, name } = decodeError(json)!
  const reason = code === undefined ? undefined : reasons.get(code)
  if (reason === undefined) return json
  const message = `The payload kept for job "${jobId}" ${reason}. The message of the schema is not stored, because it may quote sealed data; see the worker's events.`
  return JSON.stringify({ ...(name === undefined ? {} : { name }), message, code })
}

const reasons: ReadonlyMap<string, string> = new Map([
  ['invalid_payload', 'does not fit its kind'],
  ['schema_failed', 'could not be checked, because the schema of its kind failed'],
])
const codes = [...reasons.keys()]
