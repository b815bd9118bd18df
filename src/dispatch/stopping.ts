/** How a dispatcher stops: nothing new, what runs may end, the rest is handed back, and only then the lights go out. */
import type { Claim } from './claims.ts'
import type { Engine } from './engine.ts'

/** So long the last writes may take after the grace. */
const writeWithinMs = 5_000
const lookEveryMs = 20

/** Stops; resolves when nothing of it runs any more. */
export async function stopEngine(engine: Engine, graceMs: number): Promise<void> {
  const { registry, claims, ends } = engine
  const until = performance.now() + graceMs
  await engine.intake.stop()
  void engine.sharing.leave()
  while (claims.size > 0 && performance.now() < until) {
    for (const claim of claims.values()) {
      const status = registry.task(claim.jobId)?.status
      // What has not gone out goes to nobody any more.
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
  await engine.halt()
}

function giveBack(engine: Engine, claim: Claim): void {
  if (claim.isEnding) return
  engine.mailbox.post({ kind: 'forget', taskId: claim.jobId })
  engine.handBack(claim)
}

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms))
}
