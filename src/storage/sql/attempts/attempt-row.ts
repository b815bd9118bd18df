import type { AttemptEnd, AttemptRecord, CountedAttempt, ErrorGroupRecord } from '../../../jobs/index.ts'

/** How many attempts of a job are kept. */
export const keptAttempts = 50
const keptReleases = 10
const keptJobs = 10

export interface AttemptRow {
  readonly job_id: string
  readonly number: number | string
  readonly attempt: number | string
  readonly queue: string
  readonly kind: string
  readonly outcome: AttemptEnd
  readonly worker_id: string | null
  readonly release: string | null
  readonly started_at: number | string | null
  readonly ended_at: number | string
  readonly error: string
}

export function decodeAttempt(row: AttemptRow): AttemptRecord {
  return {
    jobId: row.job_id,
    number: Number(row.number),
    attempt: Number(row.attempt),
    queue: row.queue,
    kind: row.kind,
    outcome: row.outcome,
    workerId: row.worker_id,
    release: row.release,
    startedAt: row.started_at === null ? null : Number(row.started_at),
    endedAt: Number(row.ended_at),
    error: row.error,
  }
}

/** Puts attempts together by their groups. Attempts without a group are left out. */
export function gatherGroups(attempts: readonly CountedAttempt[]): readonly ErrorGroupRecord[] {
  const named = attempts.filter(({ fingerprint }) => fingerprint !== '')
  const groups = [...Map.groupBy(named, ({ fingerprint }) => fingerprint).values()].map((alike) => {
    const [first, ...others] = alike.toSorted((a, b) => a.endedAt - b.endedAt)
    return others.reduce((group, attempt) => mergeGroups(group, groupOf(attempt)), groupOf(first!))
  })
  return groups.sort((a, b) => (a.fingerprint < b.fingerprint ? -1 : 1))
}

function groupOf({ fingerprint, kind, endedAt, release, jobId, error }: CountedAttempt): ErrorGroupRecord {
  return {
    ...{ fingerprint, kind, attemptCount: 1, firstSeenAt: endedAt, lastSeenAt: endedAt, error },
    releases: release === null ? [] : [release],
    sampleJobs: [jobId],
  }
}

/** The same group with what `later` adds to it. */
export function mergeGroups(group: ErrorGroupRecord, later: ErrorGroupRecord): ErrorGroupRecord {
  return {
    ...later,
    attemptCount: group.attemptCount + later.attemptCount,
    firstSeenAt: Math.min(group.firstSeenAt, later.firstSeenAt),
    lastSeenAt: Math.max(group.lastSeenAt, later.lastSeenAt),
    releases: joinNewest(group.releases, later.releases, keptReleases),
    sampleJobs: joinNewest(group.sampleJobs, later.sampleJobs, keptJobs),
  }
}

/** Each text once, where it came last; the last `max` of them. */
export function joinNewest(
  before: readonly string[],
  later: readonly string[],
  max: number,
): readonly string[] {
  const again = new Set(later)
  return [...before.filter((text) => !again.has(text)), ...again].slice(-max)
}

export interface GroupRow {
  readonly fingerprint: string
  readonly kind: string
  readonly attempt_count: number | string
  readonly first_seen_at: number | string
  readonly last_seen_at: number | string
  readonly releases: string
  readonly sample_jobs: string
  readonly error: string
}

export function decodeGroup(row: GroupRow): ErrorGroupRecord {
  return {
    fingerprint: row.fingerprint,
    kind: row.kind,
    attemptCount: Number(row.attempt_count),
    firstSeenAt: Number(row.first_seen_at),
    lastSeenAt: Number(row.last_seen_at),
    releases: JSON.parse(row.releases) as string[],
    sampleJobs: JSON.parse(row.sample_jobs) as string[],
    error: row.error,
  }
}

/** What a row that is there already gains by a group: its lists, which SQL does not join. */
export function joinLists(
  row: Pick<GroupRow, 'releases' | 'sample_jobs'>,
  { releases, sampleJobs }: ErrorGroupRecord,
): { readonly releases: string; readonly sample_jobs: string } {
  const join = (before: string, later: readonly string[], max: number) =>
    JSON.stringify(joinNewest(JSON.parse(before) as string[], later, max))
  return {
    releases: join(row.releases, releases, keptReleases),
    sample_jobs: join(row.sample_jobs, sampleJobs, keptJobs),
  }
}
