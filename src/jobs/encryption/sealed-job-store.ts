import { setNewest } from '../../core/newest-entries.ts'
import { isReserved } from '../api/add-options.ts'
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
import { openSealed } from './open-sealed.ts'
import { withoutQuotes } from './sealed-error.ts'
import { encodeLost, encodeSealed, sealable } from './sealed-text.ts'
import { type SealContext, type Sealer, sealBytes, sealTimeoutMs } from './sealer.ts'

/** So many answers of a sealer that answers later are waited for at once. */
const atOnce = 100
/** Whose results these are is remembered for so many claims; of older ones the store is asked. */
const maxHeld = 10_000

const encoder = new TextEncoder()

type Owner = Pick<SealContext, 'queue' | 'kind'>

/**
 * A store that never learns what jobs carry: payloads and results are sealed on their way in and opened on their way
 * out. Everything above it (handlers, schemas, searches) sees plain text, everything below it never does.
 *
 * What was kept before there was a sealer is plain, and stays readable. What cannot be opened comes as it is kept, with
 * a note why (`whySealed`): one such job holds up none of the others that were asked for with it.
 */
export class SealedJobStore extends ForwardingJobStore {
  readonly #sealer: Sealer
  /** By token. */
  readonly #held = new Map<string, Owner>()
  /** A verdict that is written again is the same one: stores know it by that. */
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
    // Their leases run meanwhile, and nobody renews them yet: all of them together have this long, however many turns
    // it takes. Those that are not open by then are put off, which is better than lost.
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
    // Signalbox's own work may be done by servers, which have no key.
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
      // The work is done, so it is no failure of the job; and it must not be kept as it is.
      kept = encodeLost(jobId)
    }
    return this.#know(verdict, { ...verdict, result: kept })
  }

  #know(verdict: Verdict, sealed: Verdict): Verdict {
    this.#sealed.set(verdict, sealed)
    return sealed
  }
}

/** Of a job that is not there any more nothing will be written. */
const gone: Owner = { queue: '', kind: '' }

/** Each step's answer, in order. Those that come later are waited for a hundred at a time. */
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
      // Those that are not waited for any more are nobody's unhandled rejections.
      for (const answer of turn) if (answer instanceof Promise) answer.catch(() => undefined)
      throw error
    }
    const isLater = turn.some((answer) => answer instanceof Promise)
    answers.push(...(isLater ? await Promise.all(turn) : (turn as Answer[])))
  }
  return answers
}
