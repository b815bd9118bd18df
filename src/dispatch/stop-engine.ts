/** How a dispatcher stops: nothing new, what runs may end, the rest is handed back, and only then the lights go out. */

import type { Engine } from './engine.ts'
import type { Claim } from './tasks/claims.ts'

/** After the grace, less than 5 s in all: what is being claimed (within the grace, if that is longer), the last writes, what runs by itself. */
const claimWithinMs = 1_500
const writeWithinMs = 2_000
const haltWithinMs = 1_000
const lookEveryMs = 20

/** Stops; resolves when nothing of it runs any more, or a store that does not answer has had its time. */
export async function stopEngine(engine: Engine, graceMs: number): Promise<void> {
  const { registry, claims, ends } = engine
  const until = performance.now() + graceMs
  await engine.intake.stop(Math.max(claimWithinMs, graceMs))
  void engine.sharing.leave()
  while (claims.size > 0 && performance.now() < until) {
    for (const claim of claims.values()) {
      const status = registry.task(claim.jobId)?.status
      // Tasks that are not assigned yet are not assigned any more.
      if (status === undefined || status === 'waiting') giveBack(engine, claim)
    }
    await pause(lookEveryMs)
  }
  for (const claim of claims.values()) giveBack(engine, claim)
  // The nodes are told by the registry, which needs a turn for that.
  await pause(lookEveryMs)
  const { promise: late, resolve } = Promise.withResolvers<void>()
  const timer = setTimeout(resolve, writeWithinMs)
  await Promise.race([ends.idle(), late])
  clearTimeout(timer)
  await engine.halt(haltWithinMs)
}

function giveBack(engine: Engine, claim: Claim): void {
  if (claim.isEnding) return
  engine.mailbox.post({ kind: 'forget', taskId: claim.jobId })
  engine.handBack(claim)
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
