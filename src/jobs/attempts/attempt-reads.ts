import { createLoop, type Loop } from '../../core/loop.ts'
import { onlyKeys, refuse, text, whole } from '../../core/options.ts'
import { isReserved } from '../api/add-options.ts'
import { decodeError } from '../decode-job.ts'
import type { BlockRecord, DependencyStore } from '../dependencies/dependency-store.ts'
import type { JobError } from '../job.ts'
import type { JobActivity } from '../telemetry/job-activity.ts'
import type {
  AttemptRecord,
  AttemptStore,
  CountedAttempt,
  ErrorGroupRecord,
  GroupQuery,
  UncountedAttempt,
} from './attempt-store.ts'
import { fingerprintError } from './error-fingerprint.ts'

/** Errors of one kind of job with the same fingerprint, and so most likely with the same cause. */
export interface ErrorGroup extends Omit<ErrorGroupRecord, 'error' | 'shownError'> {
  /** One of the errors. */
  readonly error: JobError
}

/** A page of groups, by their last error, the latest first. `cursor` is null at the end. */
export interface ErrorGroupPage {
  readonly items: readonly ErrorGroup[]
  readonly cursor: string | null
  /** Whether some attempts are not counted yet, because very many failed recently. */
  readonly counting: boolean
}

/** Which groups to list. */
export interface ErrorGroupOptions {
  /** Only errors of this kind of job. */
  readonly kind?: string | undefined
  /** @default 50, at most 500 */
  readonly limit?: number | undefined
  /** The cursor of the previous page. */
  readonly cursor?: string | null | undefined
}

/** The verbs of error groups. */
export interface ErrorGroupVerbs {
  /** Lists the error groups of attempts that failed or were lost. */
  errorGroups(options?: ErrorGroupOptions): Promise<ErrorGroupPage>
  errorGroup(fingerprint: string): Promise<ErrorGroup | undefined>
}

/** Counts the ends of jobs in this process. */
type EndCounter = Pick<JobActivity, 'ended'>

/** The most attempts that one transaction counts. */
const batchSize = 200
/** How long a reader waits for the count of the attempts so far. */
const maxWaitMs = 250
const idleMs = 30_000

export function createErrorGroups(store: AttemptStore | undefined, activity?: EndCounter): ErrorGroupVerbs {
  return {
    async errorGroups(options = {}) {
      const query = resolveGroups(options)
      if (store === undefined) return { items: [], cursor: null, counting: false }
      const counting = !(await countAttempts(store, performance.now() + maxWaitMs, activity))
      const groups = await store.groups(query)
      const last = groups.at(-1)
      const cursor = groups.length < query.limit || last === undefined ? null : writeCursor(last)
      return { items: groups.map(decodeGroup), cursor, counting }
    },

    async errorGroup(fingerprint) {
      const name = text('errorGroup.fingerprint', fingerprint)
      if (store === undefined) return undefined
      await countAttempts(store, performance.now() + maxWaitMs, activity)
      const group = await store.group(name)
      return group && decodeGroup(group)
    },
  }
}

/** Counts attempts in the background, while a worker or a server runs. An idle process reads one row every 30 s. */
export function createErrorCounter(store: AttemptStore, activity?: EndCounter): Loop {
  let isFirst = true
  return createLoop({
    name: 'jobs.errors',
    idleMs,
    async step() {
      // At the first step, no attempt of this process has failed yet.
      if (isFirst) isFirst = false
      else if (await countSome(store, activity)) return 'more'
      return 'idle'
    },
  })
}

/** Counts attempts until none is left, or until the time `until`. Returns whether none is left. */
async function countAttempts(store: AttemptStore, until: number, activity?: EndCounter): Promise<boolean> {
  for (;;) {
    if (!(await countSome(store, activity))) return true
    if (performance.now() >= until) return false
  }
}

/**
 * Counts a batch of attempts in their groups. If a job died because its last lease expired, no worker counts its end:
 * the process that counts the attempt does. Returns whether there may be more attempts.
 */
export async function countSome(
  store: Pick<AttemptStore, 'uncounted' | 'count'>,
  activity?: EndCounter,
): Promise<boolean> {
  const attempts = await store.uncounted(batchSize)
  const counted = attempts.length === 0 ? [] : await store.count(attempts.map(withFingerprint))
  for (const attempt of counted) if (attempt.isUnseenEnd) activity?.ended(attempt, 'dead', null)
  return attempts.length === batchSize
}

function withFingerprint(attempt: UncountedAttempt): CountedAttempt {
  // Other modules show the failures in Signalbox's own queues.
  return {
    ...attempt,
    fingerprint: isReserved(attempt.queue) ? '' : fingerprintError(attempt.kind, attempt.error),
  }
}

function decodeGroup({ shownError, error, ...group }: ErrorGroupRecord): ErrorGroup {
  return { ...group, error: decodeError(shownError ?? error)! }
}

function resolveGroups(options: ErrorGroupOptions): GroupQuery {
  onlyKeys('errorGroups', options, ['kind', 'limit', 'cursor'])
  const { kind, limit = 50, cursor } = options
  return {
    ...(kind === undefined ? {} : { kind: text('errorGroups.kind', kind) }),
    limit: whole('errorGroups.limit', limit, { min: 1, max: 500 }),
    ...(cursor === undefined || cursor === null ? {} : { before: readCursor(cursor) }),
  }
}

function writeCursor({ lastSeenAt, fingerprint }: ErrorGroupRecord): string {
  return `${lastSeenAt}-${fingerprint}`
}

function readCursor(cursor: unknown): NonNullable<GroupQuery['before']> {
  const [, lastSeenAt, fingerprint] = /^(\d{1,15})-([0-9a-f]{16})$/.exec(String(cursor)) ?? []
  if (fingerprint !== undefined) return { lastSeenAt: Number(lastSeenAt), fingerprint }
  return refuse('errorGroups.cursor', 'the cursor of a previous page', cursor)
}

/** An attempt of a job that failed or was lost. */
export interface JobAttempt extends Omit<AttemptRecord, 'jobId' | 'queue' | 'kind' | 'error' | 'shownError'> {
  readonly error: JobError
  /** The group of its error. */
  readonly fingerprint: string
}

/** An interval in which a job could not be claimed, because it waited for other jobs or for its lock. */
export type BlockedInterval = BlockRecord

/** The stored past of a job, apart from its own row. */
export interface JobPast {
  readonly attempts: readonly JobAttempt[]
  readonly blocked: readonly BlockedInterval[]
}

/** Reads the past of a job, for a view of this job alone. */
export async function readPast(
  id: string,
  attempts: Pick<AttemptStore, 'list'> | undefined,
  dependencies: Pick<DependencyStore, 'blocks'> | undefined,
): Promise<JobPast> {
  const [ended = [], blocked = []] = await Promise.all([attempts?.list(id), dependencies?.blocks(id)])
  return { attempts: ended.map(decodeAttempt), blocked }
}

function decodeAttempt(record: AttemptRecord): JobAttempt {
  const { number, attempt, outcome, workerId, release, startedAt, endedAt, kind, error } = record
  return {
    ...{ number, attempt, outcome, workerId, release, startedAt, endedAt },
    error: decodeError(record.shownError ?? error)!,
    fingerprint: fingerprintError(kind, error),
  }
}
