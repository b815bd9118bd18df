import { SignalboxError } from '../core/errors.ts'
import type { JobStore } from '../jobs/index.ts'

/**
 * Requests that must not be done twice: what the engines share. How a key, its answer and the effect get into one
 * transaction differs by engine; which calls are kept, how an answer is written down and what is thrown does not.
 */

/** The calls that write, and so are kept with the request's key. */
type KeyedMethod =
  | 'add'
  | 'claim'
  | 'renew'
  | 'settle'
  | 'cancel'
  | 'retry'
  | 'retryDead'
  | 'pause'
  | 'resume'
  | 'setLimits'
  | 'remove'
  | 'prune'

/** Whether this answer is worth a key: a claim that finds nothing leaves none, so that it may be asked again. */
export function leavesKey(method: string, answer: unknown): boolean {
  return method !== 'claim' || (Array.isArray(answer) && answer.length > 0)
}

/** An answer as text; JSON has no word for undefined, which is what a call that found nothing answers. */
export function encodeAnswer(value: unknown): string {
  return value === undefined ? '' : JSON.stringify(value)
}

export function decodeAnswer(text: string): unknown {
  return text === '' ? undefined : JSON.parse(text)
}

/**
 * The view that `keyed` gives: the first call that writes goes to `once`, everything else to the store as ever. The
 * key is still to be had after a call that left none: it threw, or it claimed nothing.
 */
export function createKeyedJobs(
  jobs: JobStore,
  once: (method: keyof JobStore, args: readonly unknown[]) => Promise<unknown>,
): JobStore {
  let isSpent = false
  const first = async (method: keyof JobStore, args: readonly unknown[]): Promise<unknown> => {
    isSpent = true
    try {
      const answer = await once(method, args)
      if (!leavesKey(method, answer)) isSpent = false
      return answer
    } catch (error) {
      isSpent = false
      throw error
    }
  }
  /** The first call with the key goes to `once`, later ones to the store. */
  const keyed = <Name extends KeyedMethod>(method: Name, args: Parameters<JobStore[Name]>) =>
    (isSpent
      ? Reflect.apply(jobs[method] as (...args: never[]) => unknown, jobs, args)
      : first(method, args)) as ReturnType<JobStore[Name]>
  return {
    // `addClaimed` is left out: it is a shorter way to add, past the key.
    // A caller's transaction is not ours to write a key in.
    add: (...args) => (args[1] === undefined ? keyed('add', args) : jobs.add(...args)),
    claim: (...args) => keyed('claim', args),
    renew: (...args) => keyed('renew', args),
    settle: (...args) => keyed('settle', args),
    cancel: (...args) => keyed('cancel', args),
    retry: (...args) => keyed('retry', args),
    retryDead: (...args) => keyed('retryDead', args),
    pause: (...args) => keyed('pause', args),
    resume: (...args) => keyed('resume', args),
    setLimits: (...args) => keyed('setLimits', args),
    remove: (...args) => keyed('remove', args),
    prune: (...args) => keyed('prune', args),
    settleIn: (tx, verdict) => jobs.settleIn(tx, verdict),
    endTransaction: (tx, error) => jobs.endTransaction(tx, error),
    transact: (work, options) => jobs.transact(work, options),
    transactAll: (works, options) => jobs.transactAll(works, options),
    outcomes: (leases) => jobs.outcomes(leases),
    cancelRequests: (leases) => jobs.cancelRequests(leases),
    reclaim: (limit) => jobs.reclaim(limit),
    find: (id) => jobs.find(id),
    list: (query) => jobs.list(query),
    reach: (query) => jobs.reach(query),
    ends: (query) => jobs.ends(query),
    stats: () => jobs.stats(),
  }
}

/** The key was used before, for something else. */
export function keyMismatch(key: string): SignalboxError {
  return new SignalboxError(
    'idempotency_mismatch',
    `The Idempotency-Key "${key}" was used before, for another route or another body; nothing was done. Use a new key for a new request.`,
    { details: { key } },
  )
}

/** Another call with this key has begun and not ended. */
export function keyInProgress(key: string): SignalboxError {
  return new SignalboxError(
    'in_progress',
    `A request with the Idempotency-Key "${key}" is still in progress. Retry with the same key in a moment.`,
    { details: { key } },
  )
}
