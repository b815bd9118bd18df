/**
 * Decides from what claimers wrote down whether guards kept their promises. A pure function: every complaint names the
 * promise and the key.
 *
 * - G1: while a claimer may believe that it holds a key, no other claimer is granted it; and tokens rise.
 * - G2: after `done`, no claimer runs the key while the result is kept, and every claimer gets the result.
 * - G3: a claimer that dies keeps the key for its lease and no longer; at most once: for ever.
 * - G5: an end that comes after another was granted the key is refused; at least once, also one after the lease.
 *
 * A step takes effect somewhere between the call and its answer, so only what is true of every such instant is held
 * against the store.
 */
import { type GuardEvent, termsOf } from './guard-plan.ts'

export interface GuardVerdict {
  readonly complaints: readonly string[]
  readonly counts: Readonly<
    Record<'keys' | 'runs' | 'done' | 'failed' | 'abandoned' | 'late' | 'answers', number>
  >
}

type EventOf<Type extends GuardEvent['type']> = Extract<GuardEvent, { type: Type }>

interface Run {
  readonly claimed: EventOf<'claimed'>
  readonly aliveAt: number
  readonly ending: EventOf<'ending'> | undefined
  readonly ended: EventOf<'ended'> | undefined
}

/** Stores count whole milliseconds, by separate clocks. */
const slackMs = 5

export function checkGuards(events: readonly GuardEvent[]): GuardVerdict {
  const complaints: string[] = []
  const all: Run[] = []
  const byKey = Map.groupBy(events, ({ key }) => key)
  for (const [key, own] of byKey) {
    const runs = runsOf(own)
    all.push(...runs)
    const found = [
      ...runs.flatMap(checkEnd),
      ...runs.flatMap((run, index) => runs.slice(0, index).flatMap((before) => checkPair(before, run))),
      ...own.filter((event) => event.type === 'answered').flatMap((event) => checkAnswer(event, runs)),
      ...own.filter((event) => event.type === 'last').flatMap((event) => checkLast(event, runs)),
    ]
    complaints.push(...found.map((complaint) => `${complaint} (${JSON.stringify(key)})`))
  }
  const count = (is: (run: Run) => boolean) => all.filter(is).length
  const counts = {
    keys: byKey.size,
    runs: all.length,
    done: count(({ ended }) => ended?.end === 'done' && ended.took),
    failed: count(({ ending }) => ending?.end === 'failed'),
    abandoned: count(({ ending }) => ending === undefined),
    late: count(({ ended }) => ended?.took === false),
    answers: events.filter(({ type }) => type === 'answered').length,
  }
  return { complaints, counts }
}

/** In the order in which they were granted, as far as one can see. */
function runsOf(events: readonly GuardEvent[]): readonly Run[] {
  const claims = events.filter((event) => event.type === 'claimed').sort((a, b) => a.t - b.t)
  return claims.map((claimed) => {
    const own = events.filter((event) => 'token' in event && event.token === claimed.token)
    const alive = own.filter(({ type }) => type === 'alive').map(({ t }) => t)
    return {
      claimed,
      aliveAt: Math.max(claimed.askedAt, ...alive),
      ending: own.find((event) => event.type === 'ending'),
      ended: own.find((event) => event.type === 'ended'),
    }
  })
}

function numberOf(token: string): number {
  return Number(token.split('.')[0])
}

function checkEnd({ claimed, ending, ended }: Run): readonly string[] {
  const { leaseMs, mode } = termsOf(claimed.key)
  if (claimed.kept || mode === 'at-most-once' || !ended?.took) return []
  const isLate = ending!.t > claimed.t + leaseMs + slackMs
  return isLate ? [`G5: ${claimed.token} ended after its lease, and that was taken`] : []
}

function checkPair(before: Run, run: Run): readonly string[] {
  const complaints: string[] = []
  const { claimed, ending, ended } = before
  const { askedAt, t: grantedAt, token, key } = run.claimed
  const { leaseMs, keepMs, mode } = termsOf(key)
  const names = `${token} was granted after ${claimed.token}`
  if (claimed.t < askedAt && numberOf(token) <= numberOf(claimed.token))
    complaints.push(`G1: ${names}, and its number is not higher`)
  // Of two that were granted at about the same time, the higher number is the later one.
  if (numberOf(token) <= numberOf(claimed.token)) return complaints
  if (before.aliveAt > grantedAt + slackMs) complaints.push(`G1: ${names}, who still had it`)
  const wasEnding = ending !== undefined && ending.t < grantedAt
  if (!wasEnding && grantedAt < claimed.askedAt + leaseMs - slackMs)
    complaints.push(`G3: ${names}, whose lease had not ended`)
  if (mode === 'at-most-once' && !(wasEnding && ending.end === 'failed'))
    complaints.push(`G3: ${names}, though it is to be run at most once`)
  if (ended?.took && ending!.t > grantedAt) complaints.push(`G5: ${names}, whose end was still accepted`)
  const isDone = ended?.took && ended.end === 'done'
  if (isDone && askedAt > ended.t && grantedAt < ending!.t + keepMs - slackMs)
    complaints.push(`G2: ${names}, who had done it`)
  return complaints
}

function checkAnswer(
  { askedAt, t, status, result }: EventOf<'answered'>,
  runs: readonly Run[],
): readonly string[] {
  if (status !== 'done') return []
  const author = runs.find(({ claimed }) => claimed.token === result)
  if (author?.ending?.end !== 'done' || author.ending.t > t)
    return [`G2: the result ${result} was answered, but no claimer had it`]
  const later = runs.find(
    ({ claimed, ended }) =>
      ended?.took && ended.end === 'done' && ended.t < askedAt && numberOf(claimed.token) > numberOf(result!),
  )
  return later ? [`G2: the result ${result} was answered after that of ${later.claimed.token}`] : []
}

function checkLast({ t, key, status, result }: EventOf<'last'>, runs: readonly Run[]): readonly string[] {
  const { keepMs, mode } = termsOf(key)
  const done = runs.findLast(({ ended }) => ended?.took && ended.end === 'done')
  if (done && t < done.ending!.t + keepMs - slackMs) {
    const isKept = status === 'done' && result === done.claimed.token
    return isKept
      ? []
      : [`G2: ${done.claimed.token} had done it, and at last it is ${status} ${result ?? ''}`]
  }
  if (status === 'running') return ['G3: it is running though all leases have ended']
  if (status === 'done' && !runs.some(({ claimed }) => claimed.token === result))
    return [`G2: at last the result is ${result}, which no claimer had`]
  if (mode === 'at-least-once') return status === 'stuck' ? ['G3: it is stuck, and may be run again'] : []
  const last = runs.at(-1)
  const mustBeStuck = last !== undefined && last.ending === undefined
  return mustBeStuck && status !== 'stuck' ? [`G3: ${last.claimed.token} left it, and it is ${status}`] : []
}
