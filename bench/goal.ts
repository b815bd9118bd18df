/**
 * The goal of a figure, as a sentence and as a decision over the medians of one run. A goal that needs a contestant which
 * could not run does not hold.
 */

/** The medians a goal may look at. A missing contestant is missing here too. */
export interface Standing {
  readonly signalbox: number
  readonly peers: Readonly<Record<string, number>>
  readonly limit: number | undefined
  /** The best of `peers`, by the direction of the case. */
  readonly bestPeer: number | undefined
}

export interface Goal {
  readonly text: string
  holds(standing: Standing): boolean
}

/** A peer's name, or one of the two that every case may have. */
type Rival = 'limit' | 'best peer' | (string & {})

/** The figure is at least `value`. */
export function atLeast(value: number, note = ''): Goal {
  return { text: `>= ${value}${note && ` (${note})`}`, holds: ({ signalbox }) => signalbox >= value }
}

/** The figure is at most `value`. */
export function atMost(value: number, note = ''): Goal {
  return { text: `<= ${value}${note && ` (${note})`}`, holds: ({ signalbox }) => signalbox <= value }
}

/** The figure is at least `factor` times that of a rival: for rates. */
export function atLeastTimes(factor: number, rival: Rival, note = ''): Goal {
  return {
    text: `>= ${factor.toFixed(2).replace(/0$/, '')} x ${rival}${note && ` (${note})`}`,
    holds: (standing) => compare(standing, rival, (own, other) => own >= factor * other),
  }
}

/** The figure is at most `factor` times that of a rival: for latencies and memory. */
export function atMostTimes(factor: number, rival: Rival, note = ''): Goal {
  return {
    text: `<= ${factor.toFixed(2).replace(/0$/, '')} x ${rival}${note && ` (${note})`}`,
    holds: (standing) => compare(standing, rival, (own, other) => own <= factor * other),
  }
}

/** Every one of the goals holds. */
export function allOf(...goals: Goal[]): Goal {
  return {
    text: goals.map((goal) => goal.text).join(' and '),
    holds: (standing) => goals.every((goal) => goal.holds(standing)),
  }
}

function compare(standing: Standing, rival: Rival, decide: (own: number, other: number) => boolean): boolean {
  const other =
    rival === 'limit' ? standing.limit : rival === 'best peer' ? standing.bestPeer : standing.peers[rival]
  return other !== undefined && decide(standing.signalbox, other)
}

/** There is no bar for this figure; the report only prints it. */
export const printed: Goal = { text: 'printed', holds: () => true }
