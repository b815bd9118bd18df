import type { Known, KnownSubject, ReportBatch } from '../monitor-store.ts'
import { type Mint, notifyJob } from '../notification-queue.ts'
import type { RuleBook, Subscriber } from '../subscription-rules.ts'
import type { Decision, Verdict } from './decide.ts'
import { draft } from './draft.ts'
import type { Seen } from './report.ts'

/** What is decided together, and on what. */
export interface PlanAsk {
  readonly taskId: string
  readonly observedAt: number
  readonly isReconcile: boolean
  readonly seen: readonly Seen[]
  readonly known: Known
  readonly book: RuleBook
  /** Those whose matcher may match a subject of this source and group. */
  readonly near: readonly Subscriber[]
  /** Event ids that are taken. */
  readonly taken: ReadonlySet<string>
  readonly eventKeepMs: number
  readonly mint: Mint
}

/** What one subject came to. */
export interface Planned {
  readonly seen: Seen
  readonly known: KnownSubject | undefined
  readonly decision: Decision
  /** The event id that is claimed for it. */
  readonly eventId: string | null
}

export interface Plan {
  readonly batch: ReportBatch
  readonly planned: readonly Planned[]
  /** Notifications whose `from` is what another one knows, by id. */
  readonly heard: ReadonlyMap<string, NonNullable<Verdict['heardBy']>>
}

/** A clock so far ahead is wrong, and would make everything after it stale. */
const aheadMs = 60_000

/** Decides a batch, and what is to be written for it. */
export function plan(ask: PlanAsk): Plan {
  const { known } = ask
  const counts = new Map(
    throttled(ask.near).map(({ subscriptionId }, index) => [subscriptionId, known.counts[index] ?? 0]),
  )
  const observedAt = ask.observedAt > known.now + aheadMs ? known.now : ask.observedAt
  const timely = { ...ask, observedAt }
  const drafts = ask.seen.map((seen, index) => draft(timely, seen, known.subjects[index], counts))
  const notices = drafts.flatMap(({ notices }) => notices)
  const channels = new Set(notices.map(({ notice }) => notice.channel))
  const batch: ReportBatch = {
    revision: ask.book.revision,
    throttles: limits(ask.near, notices),
    subjects: drafts.flatMap(({ subject }) => subject ?? []),
    events: drafts.flatMap(({ planned: { eventId } }) =>
      eventId === null ? [] : [{ key: eventId, keepMs: ask.eventKeepMs }],
    ),
    reservations: notices.map(({ notice: { id, subject, subscriptionId, stateHash } }) => ({
      subject,
      subscriptionId,
      stateHash,
      notificationId: id,
    })),
    decisions: drafts.flatMap(({ decision }) => decision ?? []),
    notifications: notices.map(({ notice }) => notice),
    jobs: [
      ...drafts.flatMap(({ look }) => look ?? []),
      ...Array.from(channels, (channel) => notifyJob('send', { channel }, { delayMs: 0 })),
    ],
  }
  const heard = notices.flatMap(({ notice, heardBy }) => (heardBy ? [[notice.id, heardBy] as const] : []))
  return { batch, planned: drafts.map(({ planned }) => planned), heard: new Map(heard) }
}

/** Others who decide at the same time notify the same subscriptions: what they notify is counted when it is written. */
function limits(
  near: readonly Subscriber[],
  notices: readonly { readonly notice: { readonly subscriptionId: string } }[],
): ReportBatch['throttles'] {
  return near.flatMap(({ id, throttle }) => {
    const own = notices.filter(({ notice }) => notice.subscriptionId === id).length
    if (throttle === null || own === 0) return []
    return [{ subscriptionId: id, perMs: throttle.perMs, most: throttle.max - own }]
  })
}

/** Whose notifications are to be counted. */
export function throttled(
  subscribers: readonly Subscriber[],
): readonly { readonly subscriptionId: string; readonly perMs: number }[] {
  return subscribers.flatMap(({ id, throttle }) =>
    throttle === null ? [] : [{ subscriptionId: id, perMs: throttle.perMs }],
  )
}
