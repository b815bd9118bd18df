import { type Finding, ok, problem, warning } from './finding.ts'

/**
 * Clocks compared. Leases are judged by the store's own clock alone, so a wrong clock elsewhere breaks no promise; but
 * what is due at an instant, what is shown as "3 min ago" and what two stores say of one moment go wrong by as much.
 */
export interface ClockReading {
  /** Whose clock it is. */
  readonly name: string
  /** How far it is before ours; negative: behind. */
  readonly aheadMs: number
  /** How wrong that may be: half of what the question took. */
  readonly sureToMs: number
}

const warnMs = 2_000
const problemMs = 60_000

/** Asks a clock and compares; the answer is taken as given in the middle of the question. */
export async function readClock(name: string, ask: () => Promise<number>): Promise<ClockReading> {
  const begunAt = Date.now()
  const begun = performance.now()
  const told = await ask()
  const tookMs = performance.now() - begun
  return { name, aheadMs: told - (begunAt + tookMs / 2), sureToMs: tookMs / 2 }
}

/** How the clocks differ, each from this machine's, and the stores' from each other. */
export function judgeClocks(readings: readonly ClockReading[]): readonly Finding[] {
  const own: ClockReading = { name: 'this machine', aheadMs: 0, sureToMs: 0 }
  const all = [own, ...readings]
  return all.flatMap((a, at) => all.slice(at + 1).map((b) => judgePair(a, b)))
}

function judgePair(a: ClockReading, b: ClockReading): Finding {
  const apartMs = b.aheadMs - a.aheadMs
  const sureMs = Math.max(0, Math.abs(apartMs) - a.sureToMs - b.sureToMs)
  const subject = `${a.name}, ${b.name}`
  if (sureMs < warnMs) return ok('clocks', subject, 'Their clocks agree.')
  const text = `The clock of ${b.name} is ${showMs(sureMs)} ${apartMs > 0 ? 'ahead of' : 'behind'} that of ${a.name}.`
  const advice = 'Keep both machines on time with NTP (chrony, systemd-timesyncd).'
  return (sureMs < problemMs ? warning : problem)('clocks', subject, text, advice)
}

function showMs(ms: number): string {
  return ms < 120_000 ? `${(ms / 1_000).toFixed(1)} s` : `${Math.round(ms / 60_000)} min`
}
