import type { QueueLimits } from '../../jobs/index.ts'

/** The facts about a queue, or about a service of nodes. */
export interface ScalingFacts {
  /** Jobs that are due, or tasks that wait for a node. */
  readonly waiting: number
  readonly running: number
  /** Jobs that wait for other jobs or for a lock: no worker can claim them. */
  readonly blocked: number
  /** How long the oldest waiting job has waited; null: none waits. */
  readonly oldestMs: number | null
  /** Over the last five minutes. */
  readonly arrivalPerSecond: number
  readonly servicePerSecond: number
  /** The average time of an attempt; null: no attempt ended in that time, or unknown. */
  readonly runMs: number | null
  readonly isPaused: boolean
  readonly limits: QueueLimits | null
  /** The number of jobs that a worker, or a node, runs at once. */
  readonly slotsPerMember: number
}

/** What limits the number of useful slots. */
export type ScalingBound = 'paused' | 'concurrency' | 'rate'

export interface ScalingDecision {
  /** The number of jobs that should run at once. */
  readonly slots: number
  /** The number of workers or nodes for that. */
  readonly wanted: number
  readonly boundBy: ScalingBound | null
  /** One or two sentences for operators. */
  readonly reason: string
}

/**
 * Decides how many slots the work needs: slots for the jobs that arrive, and slots that finish the waiting jobs within
 * `drainMs`.
 *
 *     arrivals per second × run time  +  waiting jobs × run time ÷ drainMs
 *
 * There are never more slots than jobs, and never more than the limits of the queue allow: further workers would only
 * wait. Blocked jobs need no worker. Running jobs keep their slots.
 */
export function decideScaling(facts: ScalingFacts, drainMs: number, members: string): ScalingDecision {
  const { waiting, running, runMs, arrivalPerSecond, isPaused } = facts
  const decide = (slots: number, boundBy: ScalingBound | null, reason: string): ScalingDecision => {
    const wanted = Math.ceil(slots / facts.slotsPerMember)
    return { slots, wanted, boundBy, reason: `${reason}${inMembers(wanted, slots, facts, members)}` }
  }
  if (isPaused) {
    const rest = running === 0 ? '' : `; ${running} still run`
    return decide(
      running,
      'paused',
      `The queue is paused: ${waiting} ${waiting === 1 ? 'waits' : 'wait'}${rest}.`,
    )
  }
  const isIdle = waiting === 0 && running === 0 && arrivalPerSecond === 0
  if (isIdle) return decide(0, null, `Nothing waits and nothing arrives${blockedText(facts)}.`)
  if (runMs === null) {
    const slots = waiting + running
    const text = `${waitingText(facts)}; no attempt ended lately, so each needs a slot.`
    return bounded(slots, facts, decide, text)
  }
  const seconds = runMs / 1_000
  const forArrivals = arrivalPerSecond * seconds
  const forBacklog = (waiting * runMs) / drainMs
  // The most jobs until the backlog is finished. Earlier arrivals are among the waiting and running jobs.
  const most = waiting + running + Math.ceil((arrivalPerSecond * drainMs) / 1_000)
  const slots = Math.min(Math.max(Math.ceil(forArrivals + forBacklog), running, waiting > 0 ? 1 : 0), most)
  const text =
    `${waitingText(facts)}; ${rounded(arrivalPerSecond)} arrive each second and take ${spanText(runMs)}: ` +
    `${rounded(forArrivals)} slots for arrivals and ${rounded(forBacklog)} to work off the rest in ` +
    `${spanText(drainMs)}.`
  return bounded(slots, facts, decide, text)
}

function bounded(
  slots: number,
  { limits, runMs }: ScalingFacts,
  decide: (slots: number, boundBy: ScalingBound | null, reason: string) => ScalingDecision,
  text: string,
): ScalingDecision {
  const concurrency = limits?.concurrency ?? null
  const rate = limits?.rate ?? null
  // The number of slots that start as many jobs as the rate allows.
  const byRate =
    rate === null || runMs === null ? null : Math.max(1, Math.ceil((rate.count / rate.perMs) * runMs))
  if (byRate !== null && byRate < slots && byRate <= (concurrency ?? byRate))
    return decide(
      byRate,
      'rate',
      `${text} The queue’s rate of ${rate!.count} in ${spanText(rate!.perMs)} uses ${byRate}.`,
    )
  if (concurrency !== null && concurrency < slots)
    return decide(concurrency, 'concurrency', `${text} The queue’s limit lets ${concurrency} run at once.`)
  return decide(slots, null, text)
}

function waitingText(facts: ScalingFacts): string {
  const { waiting, oldestMs } = facts
  const oldest = oldestMs === null || waiting === 0 ? '' : `, the oldest for ${spanText(oldestMs)}`
  return `${waiting} ${waiting === 1 ? 'waits' : 'wait'}${oldest}${blockedText(facts)}`
}

function blockedText({ blocked }: ScalingFacts): string {
  return blocked === 0 ? '' : `, ${blocked} more wait for others or for a lock`
}

function inMembers(wanted: number, slots: number, { slotsPerMember }: ScalingFacts, members: string): string {
  if (slots === 0) return ''
  return ` ${counted(slots, 'slots')} ${slots === 1 ? 'is' : 'are'} ${counted(wanted, members)} of ${slotsPerMember}.`
}

/** `plural` ends in s. */
function counted(count: number, plural: string): string {
  return `${count} ${count === 1 ? plural.slice(0, -1) : plural}`
}

function rounded(value: number): string {
  return value === 0 || value >= 10 ? String(Math.round(value)) : value.toPrecision(2).replace(/\.0$/, '')
}

function spanText(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`
  if (ms < 120_000) return `${rounded(ms / 1_000)} s`
  if (ms < 7_200_000) return `${Math.round(ms / 60_000)} min`
  return `${Math.round(ms / 3_600_000)} h`
}
