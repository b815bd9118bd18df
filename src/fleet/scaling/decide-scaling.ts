import type { QueueLimits } from '../../jobs/index.ts'

/** What is known of a queue, or of a service of nodes. */
export interface ScalingSight {
  /** Jobs that are due, or tasks that wait for a node. */
  readonly waiting: number
  readonly running: number
  /** Jobs that wait for others or for a lock: no worker can take them. */
  readonly blocked: number
  readonly oldestMs: number | null
  /** In the last minutes. */
  readonly arrivalPerSecond: number
  readonly servicePerSecond: number
  /** How long an attempt runs on average; null: none ended lately. */
  readonly runMs: number | null
  readonly isPaused: boolean
  readonly limits: QueueLimits | null
  /** How many jobs a worker, or a node, runs at once. */
  readonly slotsPerMember: number
}

/** What bounds the number of slots that can be used, if something does. */
export type ScalingBound = 'paused' | 'concurrency' | 'rate'

export interface ScalingDecision {
  /** How many jobs should run at once. */
  readonly slots: number
  /** How many workers or nodes that takes. */
  readonly wanted: number
  readonly boundBy: ScalingBound | null
  /** One sentence or two, for people. */
  readonly reason: string
}

/**
 * Decides how many slots the work calls for: those that keep up with what arrives, and those that work off what waits
 * within `drainMs`.
 *
 *     arrivals per second × run time  +  waiting jobs × run time ÷ drainMs
 *
 * Never more slots than jobs, and never more than the limits of the queue let run: workers beyond these would only wait.
 * Jobs that are blocked call for no worker. Jobs that run keep their slots.
 */
export function decideScaling(sight: ScalingSight, drainMs: number, members: string): ScalingDecision {
  const { waiting, running, runMs, arrivalPerSecond, isPaused } = sight
  const decide = (slots: number, boundBy: ScalingBound | null, reason: string): ScalingDecision => {
    const wanted = Math.ceil(slots / sight.slotsPerMember)
    return { slots, wanted, boundBy, reason: `${reason}${inMembers(wanted, slots, sight, members)}` }
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
  if (isIdle) return decide(0, null, `Nothing waits and nothing arrives${blockedText(sight)}.`)
  if (runMs === null) {
    const slots = waiting + running
    const text = `${waitingText(sight)}; no attempt ended lately, so each needs a slot.`
    return bounded(slots, sight, decide, text)
  }
  const seconds = runMs / 1_000
  const forArrivals = arrivalPerSecond * seconds
  const forBacklog = (waiting * runMs) / drainMs
  // Arrivals that are there already are among those that wait or run.
  const most = waiting + running + Math.ceil((arrivalPerSecond * drainMs) / 1_000)
  const slots = Math.min(Math.max(Math.ceil(forArrivals + forBacklog), running, waiting > 0 ? 1 : 0), most)
  const text =
    `${waitingText(sight)}; ${rounded(arrivalPerSecond)} arrive each second and take ${spanText(runMs)}: ` +
    `${rounded(forArrivals)} slots for arrivals and ${rounded(forBacklog)} to work off the rest in ` +
    `${spanText(drainMs)}.`
  return bounded(slots, sight, decide, text)
}

function bounded(
  slots: number,
  { limits, runMs }: ScalingSight,
  decide: (slots: number, boundBy: ScalingBound | null, reason: string) => ScalingDecision,
  text: string,
): ScalingDecision {
  const concurrency = limits?.concurrency ?? null
  const rate = limits?.rate ?? null
  // So many slots start as many as the rate lets start.
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

function waitingText(sight: ScalingSight): string {
  const { waiting, oldestMs } = sight
  const oldest = oldestMs === null || waiting === 0 ? '' : `, the oldest for ${spanText(oldestMs)}`
  return `${waiting} ${waiting === 1 ? 'waits' : 'wait'}${oldest}${blockedText(sight)}`
}

function blockedText({ blocked }: ScalingSight): string {
  return blocked === 0 ? '' : `, ${blocked} more wait for others or for a lock`
}

function inMembers(wanted: number, slots: number, { slotsPerMember }: ScalingSight, members: string): string {
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
