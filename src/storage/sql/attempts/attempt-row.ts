import type { AttemptRecord, CountedAttempt, ErrorGroupRecord } from '../../../jobs/index.ts'
import { type Columns, columns } from '../columns.ts'

/** The number of attempts that the store keeps for each job. */
export const keptAttempts = 50
const keptReleases = 10
const keptJobs = 10

type StoredAttempt = Omit<AttemptRecord, 'shownError'>

export const storedAttempt: Columns<StoredAttempt> = columns<StoredAttempt>({
  ...{ jobId: 'text', number: 'integer', attempt: 'integer', queue: 'text', kind: 'text', outcome: 'text' },
  ...{ workerId: 'text | null', release: 'text | null', startedAt: 'integer | null', endedAt: 'integer' },
  error: 'text',
})

/** Sums up attempts by error group. Attempts without a group are left out. */
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

/** Merges two records of the same group; `later` is the newer one. */
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

/** Joins two lists without duplicates, keeps the last occurrence of each text, and returns the last `max` texts. */
export function joinNewest(
  before: readonly string[],
  later: readonly string[],
  max: number,
): readonly string[] {
  const again = new Set(later)
  return [...before.filter((text) => !again.has(text)), ...again].slice(-max)
}

type StoredGroup = Omit<ErrorGroupRecord, 'shownError'>

export const storedGroup: Columns<StoredGroup> = columns<StoredGroup>({
  ...{
    fingerprint: 'text',
    kind: 'text',
    attemptCount: 'integer',
    firstSeenAt: 'integer',
    lastSeenAt: 'integer',
  },
  ...{ releases: 'json', sampleJobs: 'json', error: 'text' },
})

/** The lists of a group, which SQL cannot merge. */
type GroupLists = Pick<ErrorGroupRecord, 'fingerprint' | 'releases' | 'sampleJobs'>

export const storedLists: Columns<GroupLists> = columns<GroupLists>({
  ...{ fingerprint: 'text', releases: 'json', sampleJobs: 'json' },
})

/** Merges the lists of a stored group with new ones. */
export function joinLists(
  kept: GroupLists,
  { fingerprint, releases, sampleJobs }: ErrorGroupRecord,
): GroupLists {
  return {
    fingerprint,
    releases: joinNewest(kept.releases, releases, keptReleases),
    sampleJobs: joinNewest(kept.sampleJobs, sampleJobs, keptJobs),
  }
}
