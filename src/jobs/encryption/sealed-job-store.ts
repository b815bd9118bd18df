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

/** How many answers of a slow sealer are awaited at once. */
const atOnce = 100
/** For how many claims queue and kind are remembered; for older ones they are read from the store. */
const maxHeld = 10_000

const encoder = new TextEncoder()

type Owner = Pick<SealContext, 'queue' | 'kind'>

/**
 * A job store that seals payloads and results on their way in and opens them on their way out. Handlers, schemas and
 * searches above it see plain text; the store below it never does.
 *
 * Jobs that were added before there was a sealer stay readable. A job that cannot be opened is returned as it is
 * stored, with the reason (`whySealed`), so that it does not affect the other jobs of the call.
 */
export class SealedJobStore extends ForwardingJobStore {
  readonly #sealer: Sealer
  /** By token. */
  readonly #held = new Map<string, Owner>()
  /** A repeated verdict must be sealed to the same text: by that, stores recognise it. */
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
    const sealed = await inTurns(jobs, (job) => this.#sealJob(job))
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
    // No worker renews these leases yet, so there is one time limit for all of them. Jobs that are not open by then are
    // delayed, which is better than a lost lease.
    const until = performance.now() + Math.min(sealTimeoutMs, request.leaseMs / 3)
    const leftMs = () => Math.max(1, Math.ceil(until - performance.now()))
    return inTurns(records, (record) => openSealed(this.#sealer, record, leftMs()))
  }

  override async settle(verdicts: readonly Verdict[]): Promise<readonly boolean[]> {
    return this.inner.settle(await inTurns(verdicts, (verdict) => this.#sealVerdict(verdict)))
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
    return inTurns(await this.inner.list(query), (record) => openSealed(this.#sealer, record))
  }

  #remember({ token, queue, kind }: ClaimedRecord): void {
    setNewest(this.#held, token, { queue, kind }, maxHeld)
  }

  #sealJob(job: NewJob): NewJob | Promise<NewJob> {
    // Servers, which have no key, work on Signalbox's own queues.
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
      return kept === error ? verdict : this.#know(verdict, { ...verdict, error: kept })
    }
    const { queue, kind } = this.#held.get(verdict.token) ?? (await this.inner.find(jobId)) ?? gone
    if (isReserved(queue)) return verdict
    let kept: string
    try {
      const context: SealContext = { part: 'result', queue, kind, jobId }
      kept = encodeSealed(jobId, await sealBytes(this.#sealer, encoder.encode(sealable(result)), context))
    } catch {
      // The work is done, so the job has not failed; and the result must not be stored in plain.
      kept = encodeLost(jobId)
    }
    return this.#know(verdict, { ...verdict, result: kept })
  }

  #know(verdict: Verdict, sealed: Verdict): Verdict {
    this.#sealed.set(verdict, sealed)
    return sealed
  }
}

/** For a job that is gone nothing is written. */
const gone: Owner = { queue: '', kind: '' }

/** The answers of all steps, in order. Asynchronous ones are awaited a hundred at a time. */
async function inTurns<Item, Answer>(
  items: readonly Item[],
  step: (item: Item) => Answer | Promise<Answer>,
): Promise<readonly Answer[]> {
  const answers: Answer[] = []
  for (let at = 0; at < items.length; at += atOnce) {
    const turn: (Answer | Promise<Answer>)[] = []
    try {
      for (const item of items.slice(at, at + atOnce)) turn.push(step(item))
    } catch (error) {
      // The others are no longer awaited; their rejections must not be unhandled.
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
  const says = code === undefined ? undefined : told.get(code)
  if (says === undefined) return json
  const message = `The payload kept for job "${jobId}" ${says}. The message of the schema is not stored, because it may quote sealed data; see the worker's events.`
  return JSON.stringify({ ...(name === undefined ? {} : { name }), message, code })
}

const told: ReadonlyMap<string, string> = new Map([
  ['invalid_payload', 'does not fit its kind'],
  ['schema_failed', 'could not be looked at, because the schema of its kind failed'],
])
const codes = [...told.keys()]
