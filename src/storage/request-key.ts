import { SignalboxError } from '../core/errors.ts'
import type { JobStore } from '../jobs/index.ts'

/**
 * Requests that must not take effect twice: the part that the engines share. It defines which calls store a key, how an
 * answer is encoded, and which errors are thrown. How a key, its answer and the effect get into one transaction differs
 * by engine.
 */

/** The calls that write, and that therefore store the request's key. */
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

/** Whether this answer stores a key. A claim that finds nothing stores none, so that the caller can ask again. */
export function leavesKey(method: string, answer: unknown): boolean {
  return method !== 'claim' || (Array.isArray(answer) && answer.length > 0)
}

/** Encodes an answer. JSON cannot represent undefined, which some calls return when they find nothing. */
export function encodeAnswer(value: unknown): string {
  return value === undefined ? '' : JSON.stringify(value)
}

export function decodeAnswer(text: string): unknown {
  return text === '' ? undefined : JSON.parse(text)
}

/**
 * The view that `keyed` returns: the first call that writes goes to `once`, all other calls to the store. If that call
 * stored no key (it threw, or it claimed nothing), the key can be used again.
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
  /** The first call with the key goes to `once`, later calls to the store. */
  const keyed = <Name extends KeyedMethod>(method: Name, args: Parameters<JobStore[Name]>) =>
    (isSpent
      ? Reflect.apply(jobs[method] as (...args: never[]) => unknown, jobs, args)
      : first(method, args)) as ReturnType<JobStore[Name]>
  return {
    // `addClaimed` is missing, because it would add jobs without the key. Signalbox does not write a key to a caller's
    // transaction.
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

/** The key was used before for another request. */
export function keyMismatch(key: string): SignalboxError {
  return new SignalboxError(
    'idempotency_mismatch',
    `The Idempotency-Key "${key}" was used before, for another route or another body; nothing was done. Use a new key for a new request.`,
    { details: { key } },
  )
}

/** Another call with this key has begun and has not ended. */
export function keyInProgress(key: string): SignalboxError {
  return new SignalboxError(
    'in_progress',
    `A request with the Idempotency-Key "${key}" is still in progress. Retry with the same key in a moment.`,
    { details: { key } },
  )
}
