import type { GateStore, LockGate } from './dependency-store.ts'
import type { JobLocks } from './job-locks.ts'

/**
 * Tends jobs that wait for a lock or have it. It alone moves a lock on a job's behalf: it stands in line while the job
 * waits, keeps the grant while the job is ready or runs, and gives it back when the job ended or is to wait for another
 * attempt. Each step is safe to do twice and to leave undone: whoever tends the job next finds it as it is.
 *
 *     waiting ──ask, ask again──▶ granted: ready ──▶ running ──▶ ended: release, rest
 *        ▲                          └── lost: shut ◀───┘└── back-off, ready again: release, shut ──┐
 *        └─────────────────────────────────────────────────────────────────────────────────────────┘
 */
export interface LockWorkParts {
  readonly gates: GateStore
  readonly locks: JobLocks
  /** A job of this queue may be claimed now. */
  onReady(queue: string): void
  /** This job should be tended soon. */
  onNext(jobId: string): void
  /** This job should be tended in so long. */
  onLater(jobId: string, inMs: number): void
}

/** How long a job counts as tended. Grants last 30 s and are to be taken up within 10. */
export const tendMs = 2_000
export const tendPage = 200

/** What is left to do for a job that was tended. */
export type Tended = 'waits' | 'held' | 'over'

export async function tendGate(parts: LockWorkParts, gate: LockGate): Promise<Tended> {
  const { gates, locks } = parts
  const { jobId, fence, state } = gate
  switch (state) {
    case 'waiting':
      // One that has a fence and waits was put back by an operator's hand, or between two steps of ours.
      if (fence !== null) return giveUp(parts, gate, fence)
      if (gate.dueInMs === 0) return askFor(parts, gate)
      parts.onLater(jobId, gate.dueInMs)
      return 'waits'
    case 'scheduled':
      return fence === null ? shut(parts, gate) : giveUp(parts, gate, fence)
    case 'ready':
    case 'running': {
      // It ran, and is in line again since its worker died or gave it back: its next run has a turn of its own.
      if (fence !== null && gate.isTaken && state === 'ready') return giveUp(parts, gate, fence)
      if (fence !== null && (await locks.renew(gate, fence))) return 'held'
      // A job that runs without its lock learns it with its next renewal; one that is ready waits again.
      if (fence === null && state === 'running') return 'held'
      return shut(parts, gate)
    }
    default: {
      if (fence === null) await locks.leave(gate)
      else await release(parts, gate, fence, state === 'completed' ? 'success' : 'failure')
      await gates.rest([jobId])
      return 'over'
    }
  }
}

async function askFor(parts: LockWorkParts, gate: LockGate): Promise<Tended> {
  const { jobId, askNo } = gate
  const answer = await parts.locks.ask(gate)
  if (answer === 'waits') return 'waits'
  if (answer === 'over') return shut(parts, gate)
  const { fence } = answer
  const queue = await parts.gates.grant({ jobId, askNo, fence })
  if (queue === undefined) {
    // Another keeper may have let it on with this very grant: then it is the job's, and not ours to give away.
    const [now] = await parts.gates.fences([jobId])
    if (now?.askNo === askNo && now.fence === fence) return 'held'
    // It was cancelled meanwhile, or let go: the turn is the next one's.
    await release(parts, gate, fence, 'failure')
    return 'waits'
  }
  parts.onReady(queue)
  return 'held'
}

/** Gives a turn back that the job has no use for now, and calls it to the line anew. */
async function giveUp(parts: LockWorkParts, gate: LockGate, fence: number): Promise<Tended> {
  await release(parts, gate, fence, 'failure')
  return shut(parts, gate)
}

async function shut({ gates, locks, onLater }: LockWorkParts, gate: LockGate): Promise<Tended> {
  const { jobId, askNo, fence, dueInMs } = gate
  // Only as it was seen: another keeper may have been granted it since.
  const isShut = await gates.shut({ jobId, askNo, fence })
  // An ask that still stood in line would be granted some day, and nobody would take it up.
  if (isShut && fence === null) await locks.leave(gate)
  onLater(jobId, dueInMs)
  return 'waits'
}

async function release(
  { locks, onNext }: LockWorkParts,
  gate: LockGate,
  fence: number,
  outcome: 'success' | 'failure',
): Promise<void> {
  const next = await locks.release(gate, fence, outcome)
  if (next !== undefined) onNext(next)
}
