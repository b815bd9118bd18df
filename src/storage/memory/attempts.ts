import type {
  AttemptRecord,
  AttemptStore,
  CountedAttempt,
  ErrorGroupRecord,
  GroupQuery,
  UncountedAttempt,
} from '../../jobs/index.ts'
import { boundAttemptError } from '../attempt-error.ts'
import { gatherGroups, keptAttempts, mergeGroups } from '../sql/attempts/attempt-row.ts'

/** Failed and lost attempts of one namespace by job, and groups of their errors. */
export class MemoryAttempts implements AttemptStore {
  readonly #now: () => number
  /** By job id, oldest first. */
  readonly #attempts = new Map<string, AttemptRecord[]>()
  /** Attempts that no group counts yet. True: the attempt was an end that no process has counted. */
  readonly #uncounted = new Map<AttemptRecord, boolean>()
  readonly #groups = new Map<string, ErrorGroupRecord>()

  constructor(now: () => number) {
    this.#now = now
  }

  /** Stores an attempt, in the same step as its verdict. */
  keep({ isUnseenEnd, ...attempt }: UncountedAttempt): void {
    const kept = { ...attempt, error: boundAttemptError(attempt.error) }
    const own = this.#attempts.get(attempt.jobId) ?? []
    own.push(kept)
    this.#attempts.set(attempt.jobId, own)
    this.#uncounted.set(kept, isUnseenEnd)
  }

  async list(jobId: string): Promise<readonly AttemptRecord[]> {
    return (this.#attempts.get(jobId) ?? []).slice(-keptAttempts)
  }

  async uncounted(limit: number): Promise<readonly UncountedAttempt[]> {
    return [...this.#uncounted].slice(0, limit).map(([attempt, isUnseenEnd]) => ({ ...attempt, isUnseenEnd }))
  }

  async count(attempts: readonly CountedAttempt[]): Promise<readonly CountedAttempt[]> {
    const own = attempts.filter(({ jobId, number }) => {
      const kept = this.#attempts.get(jobId)?.find((one) => one.number === number)
      return kept !== undefined && this.#uncounted.delete(kept)
    })
    for (const group of gatherGroups(own)) {
      const before = this.#groups.get(group.fingerprint)
      this.#groups.set(group.fingerprint, before === undefined ? group : mergeGroups(before, group))
    }
    for (const { jobId } of own) {
      const all = this.#attempts.get(jobId)!
      const last = all.slice(-keptAttempts)
      this.#attempts.set(jobId, [
        ...all.slice(0, -keptAttempts).filter((one) => this.#uncounted.has(one)),
        ...last,
      ])
    }
    return own
  }

  async groups({ kind, limit, before }: GroupQuery): Promise<readonly ErrorGroupRecord[]> {
    return [...this.#groups.values()]
      .filter((group) => kind === undefined || group.kind === kind)
      .sort(byLastSeen)
      .filter((group) => before === undefined || byLastSeen(group, before) > 0)
      .slice(0, limit)
  }

  async group(fingerprint: string): Promise<ErrorGroupRecord | undefined> {
    return this.#groups.get(fingerprint)
  }

  async prune({ olderThanMs, limit }: { olderThanMs: number; limit: number }): Promise<number> {
    const cutoff = this.#now() - olderThanMs
    const old = [...this.#groups.values()]
      .filter(({ lastSeenAt }) => lastSeenAt < cutoff)
      .sort((a, b) => byLastSeen(b, a))
      .slice(0, limit)
    for (const { fingerprint } of old) this.#groups.delete(fingerprint)
    return old.length
  }

  forget(jobIds: readonly string[]): void {
    for (const jobId of jobIds) {
      for (const attempt of this.#attempts.get(jobId) ?? []) this.#uncounted.delete(attempt)
      this.#attempts.delete(jobId)
    }
  }
}

type Seen = Pick<ErrorGroupRecord, 'lastSeenAt' | 'fingerprint'>

/** Sorts the latest first. */
function byLastSeen(a: Seen, b: Seen): number {
  return b.lastSeenAt - a.lastSeenAt || compare(b.fingerprint, a.fingerprint)
}

function compare(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0
}
