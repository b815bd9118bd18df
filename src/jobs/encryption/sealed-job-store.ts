import { setNewest } from '../../core/newest-entries.ts'
import { isReserved } from '../api/add-options.ts'
import { decodeError } from '../decode-job.ts'
import { ForwardingJobStore } from '../forwarding-job-store.ts'
import type {
  Added,
  ClaimedRecord,
  ClaimRequest,
  JobRecord,
  JobStore,
  ListQuery,
  NewJob,
  StoreTransaction,
  TransactOptions,
  Verdict,
} from '../job-store.ts'
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
export class SealedJobStore extends ForwardingJobStore {
  readonly #sealer: Sealer
  /** By token. */
  readonly #held = new Map<string, Owner>()
  /** A repeated verdict must have the same sealed text, because stores recognise it by the text. */
  readonly #sealed = new WeakMap<Verdict, Verdict>()

  constructor(store: JobStore, sealer: Sealer) {
    super(store)
    this.#sealer = sealer
  }

  override async add(
    jobs: readonly NewJob[],
    tx?: unknown,
    wakeUps?: readonly string[],
  ): Promise<readonly Added[]> {
    const sealed = await inBatches(jobs, (job) => this.#sealJob(job))
    return this.inner.add(sealed, tx, wakeUps)
  }

  protected override async addClaimedTo(
    addClaimed: NonNullable<JobStore['addClaimed']>,
    job: NewJob,
    request: ClaimRequest,
  ): Promise<ClaimedRecord | undefined> {
    const record = await addClaimed(await this.#sealJob(job), request)
    if (record === undefined) return undefined
    this.#remember(record)
    return { ...record, payload: job.payload }
  }

  override async claim(request: ClaimRequest): Promise<readonly ClaimedRecord[]> {
    const records = await this.inner.claim(request)
    for (const record of records) this.#remember(record)
    // No worker renews these leases yet, so all of them share one time limit. A job that does not open within it is
    // delayed, which is better than a lost lease.
    const until = performance.now() + Math.min(sealTimeoutMs, request.leaseMs / 3)
    const leftMs = () => Math.max(1, Math.ceil(until - performance.now()))
    return inBatches(records, (record) => openSealed(this.#sealer, record, leftMs()))
  }

  override async settle(verdicts: readonly Verdict[]): Promise<readonly boolean[]> {
    return this.inner.settle(await inBatches(verdicts, (verdict) => this.#sealVerdict(verdict)))
  }

  override async settleIn(tx: unknown, verdict: Verdict): Promise<boolean> {
    return this.inner.settleIn(tx, await this.#sealVerdict(verdict))
  }

  override transact(
    work: (tx: StoreTransaction) => Promise<Verdict>,
    options: TransactOptions,
  ): Promise<void> {
    return this.inner.transact(async (tx) => this.#sealVerdict(await work(tx)), options)
  }

  override transactAll(
    works: readonly ((tx: StoreTransaction) => Promise<Verdict>)[],
    options: TransactOptions,
  ): Promise<readonly (undefined | { readonly error: unknown })[]> {
    const sealing = works.map((work) => async (tx: StoreTransaction) => this.#sealVerdict(await work(tx)))
    return this.inner.transactAll(sealing, options)
  }

  override async find(id: string): Promise<JobRecord | undefined> {
    const record = await this.inner.find(id)
    return record && openSealed(this.#sealer, record)
  }

  override async list(query: ListQuery): Promise<readonly JobRecord[]> {
    return inBatches(await this.inner.list(query), (record) => openSealed(this.#sealer, record))
  }

  #remember({ token, queue, kind }: ClaimedRecord): void {
    setNewest(this.#held, token, { queue, kind }, maxHeld)
  }

  #sealJob(job: NewJob): NewJob | Promise<NewJob> {
    // Servers work on Signalbox's own queues, and have no key.
    if (isReserved(job.queue)) return job
    const context: SealContext = { part: 'payload', queue: job.queue, kind: job.kind, jobId: job.id }
    const sealed = sealBytes(this.#sealer, encoder.encode(sealable(job.payload)), context)
    const withBytes = (bytes: Uint8Array): NewJob => ({ ...job, payload: encodeSealed(job.id, bytes) })
    return sealed instanceof Promise ? sealed.then(withBytes) : withBytes(sealed)
  }

  async #sealVerdict(verdict: Verdict): Promise<Verdict> {
    const { result, error, jobId } = verdict
    if (result === null && error === null) return verdict
    const before = this.#sealed.get(verdict)
    if (before !== undefined) return before
    if (result === null) {
      const kept = withoutQuotes(jobId, error!)
      return kept === error ? verdict : this.#rememberSealed(verdict, { ...verdict, error: kept })
    }
    const { queue, kind } = this.#held.get(verdict.token) ?? (await this.inner.find(jobId)) ?? gone
    if (isReserved(queue)) return verdict
    let kept: string
    try {
      const context: SealContext = { part: 'result', queue, kind, jobId }
      kept = encodeSealed(jobId, await sealBytes(this.#sealer, encoder.encode(sealable(result)), context))
    } catch {
      // The work is done, so the job has not failed. The result must not be stored in plain.
      kept = encodeLost(jobId)
    }
    return this.#rememberSealed(verdict, { ...verdict, result: kept })
  }

  #rememberSealed(verdict: Verdict, sealed: Verdict): Verdict {
    this.#sealed.set(verdict, sealed)
    return sealed
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
