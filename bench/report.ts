/**
 * From the rounds of a trial to the printed report, in pure functions. The shape of CaseReport is a promise to readers of
 * `--json`: fields may be added, none change their meaning.
 */
import type { Case, Figures, Trial } from './case.ts'
import { best, ratio, type Summary, summarize } from './summary.ts'

/** What the rounds of one contestant gave, or why it could not run. */
export type Outcome = { readonly rounds: readonly Figures[] } | { readonly reason: string }

export interface CaseReport {
  readonly name: string
  readonly unit: string
  /** The median of the rounds; null when it could not be measured. */
  readonly signalbox: number | null
  readonly peers: Readonly<Record<string, number | null>>
  readonly limit: number | null
  /** Above 1: ahead of the best peer, whichever way the unit runs. */
  readonly ratioToBestPeer: number | null
  readonly ratioToLimit: number | null
  /** The figure to reach. */
  readonly goal: string
  readonly met: boolean
  /** Why something could not run. A case with a reason is never met. */
  readonly reason?: string
  /** The smallest and the largest of the rounds, by contestant. */
  readonly spread: Readonly<Record<string, readonly [number, number]>>
  /** Figures from elsewhere, not from this run. */
  readonly constants?: Readonly<Record<string, string>>
}

export interface ModuleReport {
  readonly module: string
  readonly cases: readonly CaseReport[]
}

/** Every case of a trial, judged on what its contestants did. */
export function reportTrial(trial: Trial, outcomes: ReadonlyMap<string, Outcome>): CaseReport[] {
  return trial.cases.map((wanted) => reportCase(wanted, 'limit' in trial.contestants, outcomes))
}

function reportCase(wanted: Case, hasLimit: boolean, outcomes: ReadonlyMap<string, Outcome>): CaseReport {
  const names = ['signalbox', ...wanted.peers, ...(hasLimit ? ['limit'] : [])]
  const reasons: string[] = []
  const summaries = new Map<string, Summary>()
  for (const name of names) {
    const found = read(outcomes.get(name), wanted.figure)
    if (typeof found === 'string') reasons.push(`${name}: ${found}`)
    else summaries.set(name, found)
  }

  const medianOf = (name: string): number | undefined => summaries.get(name)?.median
  const own = medianOf('signalbox')
  const limit = medianOf('limit')
  const peers: Record<string, number> = {}
  for (const name of wanted.peers) if (summaries.has(name)) peers[name] = medianOf(name)!
  const bestPeer = best(Object.values(peers), wanted.better)

  return {
    name: wanted.name,
    unit: wanted.unit,
    signalbox: orNull(own),
    peers: Object.fromEntries(wanted.peers.map((name) => [name, orNull(medianOf(name))])),
    limit: orNull(limit),
    ratioToBestPeer: ratioOrNull(own, bestPeer, wanted.better),
    ratioToLimit: ratioOrNull(own, limit, wanted.better),
    goal: wanted.goal.text,
    // A goal may not even look at the contestant that failed. The case is still unmet, because a report with holes in it
    // must not read as a success.
    met:
      reasons.length === 0 &&
      own !== undefined &&
      wanted.goal.holds({ signalbox: own, peers, limit, bestPeer }),
    ...(reasons.length > 0 && { reason: reasons.join('; ') }),
    spread: Object.fromEntries(
      [...summaries].map(([name, { min, max }]) => [name, [round(min), round(max)]]),
    ),
    ...(wanted.constants && { constants: wanted.constants }),
  }
}

function read(outcome: Outcome | undefined, figure: string): Summary | string {
  if (!outcome) return 'was not measured'
  if ('reason' in outcome) return outcome.reason
  const values = outcome.rounds.map((figures) => figures[figure])
  // One round without the figure is no figure: a median of the lucky rounds would flatter.
  const isWhole = values.every((value): value is number => value !== undefined && Number.isFinite(value))
  return isWhole && values.length > 0 ? summarize(values) : `gave no figure "${figure}"`
}

function ratioOrNull(
  own: number | undefined,
  other: number | undefined,
  better: Case['better'],
): number | null {
  return own === undefined || other === undefined ? null : orNull(ratio(own, other, better))
}

/** JSON knows no undefined and no Infinity. */
function orNull(value: number | undefined): number | null {
  return value === undefined || !Number.isFinite(value) ? null : round(value)
}

/** Four significant digits: more would only be noise. */
function round(value: number): number {
  return Number(value.toPrecision(4))
}
