import type { WireJob } from '../../../src/http/client/index.ts'
import { jobStates } from '../../../src/http/client/index.ts'

/** Which states an act applies to, and what to ask before it: pure rules of the bulk dialogs. */
export type Act = 'retry' | 'cancel' | 'delete'
export const acts: readonly Act[] = ['retry', 'cancel', 'delete']

type JobState = WireJob['state']
export type StateCounts = Readonly<Record<JobState, number>>

/** The server skips jobs in any other state. A ready job runs anyway, so the dialog does not offer to retry it. */
const applicable: Readonly<Record<Act, readonly JobState[]>> = {
  retry: ['dead', 'cancelled', 'scheduled', 'waiting', 'completed'],
  cancel: ['scheduled', 'ready', 'waiting', 'running'],
  delete: ['dead', 'cancelled', 'completed', 'scheduled', 'ready', 'waiting'],
}

/** Acts on more jobs than this ask for the number to be typed. */
const typedFrom = 100

export const noCounts: StateCounts = Object.fromEntries(jobStates.map((state) => [state, 0])) as StateCounts

export function addCounts(one: StateCounts, other: StateCounts): StateCounts {
  return Object.fromEntries(jobStates.map((state) => [state, one[state] + other[state]])) as StateCounts
}

export function countStates(states: readonly JobState[]): StateCounts {
  const counts = { ...noCounts }
  for (const state of states) counts[state]++
  return counts
}

/** The states that a reader can choose from: the act applies, and there are such jobs. */
export function choicesFor(act: Act, counts: StateCounts): readonly JobState[] {
  return applicable[act].filter((state) => counts[state] > 0)
}

/** The states that are there and that the act leaves alone. */
export function leftAlone(act: Act, counts: StateCounts): readonly JobState[] {
  return jobStates.filter((state) => counts[state] > 0 && !applicable[act].includes(state))
}

/**
 * The states selected when the dialog opens. A retry selects dead jobs only: to run completed jobs again, the operator
 * must choose that state here or in the filter.
 */
export function defaultChoice(act: Act, counts: StateCounts, filtered?: JobState): readonly JobState[] {
  const choices = choicesFor(act, counts)
  if (act !== 'retry') return choices
  return choices.filter((state) => state === (filtered ?? 'dead'))
}

export function countChosen(counts: StateCounts, chosen: readonly JobState[]): number {
  return chosen.reduce((sum, state) => sum + counts[state], 0)
}

/** A large act, one that cannot be undone, and one that runs completed work again ask for the number to be typed. */
export function mustType(act: Act, total: number, chosen: readonly JobState[]): boolean {
  const runsAgain = act === 'retry' && chosen.includes('completed')
  return total > typedFrom || act === 'delete' || runsAgain
}

/** The search for the chosen states. The grammar knows no "or", so several states are said by leaving out the others. */
export function searchChosen(search: string, chosen: readonly JobState[], filtered?: JobState): string {
  if (filtered !== undefined) return search
  if (chosen.length === 1) return `${search} state:${chosen[0]}`
  const others = jobStates.filter((state) => !chosen.includes(state))
  return [search, ...others.map((state) => `-state:${state}`)].join(' ')
}
