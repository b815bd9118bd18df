import type { OverviewSample } from '../../contract/index.ts'

/**
 * The last hour of every namespace, as far as it passed through this server: what was added and how attempts ended, how
 * long jobs waited and ran. In memory, in steps of five seconds, written at the cost of a few additions:
 *
 *     … sample │ sample │ sample │ the step under way
 *               oldest first, an hour of them    counters and two small histograms
 *
 * A step in which nothing happened takes no room. There is room for a bounded number of namespaces; the one that was
 * quiet for the longest makes room.
 */
export interface History {
  added(namespace: string, count: number): void
  /** A job was claimed, so long after it could have been. */
  waited(namespace: string, ms: number): void
  /** An attempt ended; `ms` is how long it ran, where that is known. */
  ended(namespace: string, outcome: Ending, ms: number | undefined): void
  /** Somebody counted the queues. */
  looked(namespace: string, ready: number, running: number): void
  /** The samples that began at `since` or later, with the step under way as the last. */
  samples(namespace: string, since: number): readonly OverviewSample[]
  /** Since when it has been kept. */
  readonly since: number
}

export type Ending = 'completed' | 'retried' | 'dead' | 'other'

export const historyLimits: {
  readonly stepMs: number
  readonly keepMs: number
  readonly namespaces: number
} = { stepMs: 5_000, keepMs: 3_600_000, namespaces: 200 }

/** `now` is a calendar's, for the samples are shown beside a clock. */
export function createHistory(now: () => number = Date.now): History {
  const { stepMs, namespaces } = historyLimits
  const begunAt = now()
  /** The longest quiet first. */
  const lines = new Map<string, Line>()

  function stepOf(namespace: string): Step {
    const at = Math.floor(now() / stepMs) * stepMs
    const known = lines.get(namespace)
    // A calendar that is set back begins no step before those that are there.
    if (known !== undefined && at <= known.step.at && at > known.step.at - historyLimits.keepMs)
      return known.step
    const line = known ?? { samples: [], step: createStep(at) }
    lines.delete(namespace)
    lines.set(namespace, line)
    if (lines.size > namespaces) lines.delete(lines.keys().next().value!)
    if (line.step.at !== at) {
      line.samples.push(sampleOf(line.step))
      forget(line.samples, at)
      line.step = createStep(at)
    }
    return line.step
  }

  return {
    since: begunAt,
    added(namespace, count) {
      stepOf(namespace).added += count
    },
    waited(namespace, ms) {
      stepOf(namespace).wait.observe(ms)
    },
    ended(namespace, outcome, ms) {
      const step = stepOf(namespace)
      if (outcome !== 'other') step[outcome]++
      if (ms !== undefined) step.run.observe(ms)
    },
    looked(namespace, ready, running) {
      const step = stepOf(namespace)
      step.ready = ready
      step.running = running
    },
    samples(namespace, since) {
      const line = lines.get(namespace)
      if (line === undefined) return []
      const from = Math.max(since, now() - historyLimits.keepMs)
      return [...line.samples, sampleOf(line.step)].filter(({ at }) => at >= from)
    },
  }
}

interface Line {
  readonly samples: OverviewSample[]
  step: Step
}

/** What is counted until the next step begins. */
interface Step {
  readonly at: number
  added: number
  completed: number
  retried: number
  dead: number
  readonly wait: Spread
  readonly run: Spread
  ready: number | null
  running: number | null
}

function createStep(at: number): Step {
  const counts = { added: 0, completed: 0, retried: 0, dead: 0, ready: null, running: null }
  return { at, ...counts, wait: new Spread(), run: new Spread() }
}

function sampleOf({ wait, run, ...counts }: Step): OverviewSample {
  return {
    ...counts,
    waitP50Ms: wait.percentile(0.5),
    waitP99Ms: wait.percentile(0.99),
    runP50Ms: run.percentile(0.5),
    runP99Ms: run.percentile(0.99),
  }
}

function forget(samples: OverviewSample[], now: number): void {
  const from = now - historyLimits.keepMs
  const kept = samples.findIndex(({ at }) => at >= from)
  samples.splice(0, kept === -1 ? samples.length : kept)
}

/** Four bins to each doubling: a percentile is right within a fifth. */
const binsPerDoubling = 4
const binCount = 128

/** How often which span was seen, from a millisecond to weeks; nothing is allocated before the first. */
class Spread {
  #bins: Uint32Array | undefined
  #count = 0

  observe(ms: number): void {
    this.#bins ??= new Uint32Array(binCount)
    const bin = ms < 1 ? 0 : Math.min(binCount - 1, 1 + Math.floor(Math.log2(ms) * binsPerDoubling))
    this.#bins[bin]!++
    this.#count++
  }

  percentile(share: number): number | null {
    if (this.#bins === undefined) return null
    let left = Math.ceil(this.#count * share)
    for (let bin = 0; bin < binCount; bin++) {
      left -= this.#bins[bin]!
      if (left <= 0) return bin === 0 ? 0.5 : Math.round(2 ** ((bin - 0.5) / binsPerDoubling) * 10) / 10
    }
    return null
  }
}
