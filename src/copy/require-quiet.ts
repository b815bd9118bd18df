import { setTimeout as sleep } from 'node:timers/promises'
import { SignalboxError } from '../core/errors.ts'
import type { CopyEnd, LiveLease } from '../storage/index.ts'
import { openBackend } from '../storage/open.ts'
import type { CopyNews } from './copy-progress.ts'

/**
 * A copy carries no lease to the target: the target is a store without active work. So the copy waits until the leases
 * of dead workers expire, and refuses while a process renews or takes one. Then it reclaims expired jobs, as the next
 * worker would. A worker from before the copy has no lease in the target, so the target refuses its verdict.
 */
export async function makeQuiet(
  url: string,
  source: CopyEnd,
  { waitMs, onNews }: { readonly waitMs: number; readonly onNews: (news: CopyNews) => void },
): Promise<void> {
  await waitForLeases(source, waitMs, onNews)
  await takeBack(url, source)
}

/** Throws if a process works in the source now. */
export async function requireQuiet(source: CopyEnd): Promise<void> {
  const [lease] = await source.liveLeases()
  if (lease !== undefined) throw busy(lease, 'has come to be held since the copy began')
}

async function waitForLeases(
  source: CopyEnd,
  waitMs: number,
  onNews: (news: CopyNews) => void,
): Promise<void> {
  const deadline = performance.now() + waitMs
  let known: ReadonlyMap<string, number> | undefined
  for (;;) {
    const leases = await source.liveLeases()
    const [last] = leases
    if (last === undefined) return
    const renewed = leases.find(({ of, endsAt }) => known !== undefined && endsAt > (known.get(of) ?? 0))
    // Only the last twenty leases are read. So a lease that is new here may be old if there were twenty before.
    if (renewed !== undefined && known!.size < 20) throw busy(renewed, 'was taken or renewed just now')
    if (performance.now() + last.restMs > deadline) throw busy(last, `is held for another ${last.restMs} ms`)
    known = new Map(leases.map(({ of, endsAt }) => [of, endsAt]))
    onNews({ phase: 'waiting', leases: leases.length, restMs: last.restMs, of: last.of })
    await sleep(Math.min(1_000, last.restMs + 1))
  }
}

function busy({ of, holder, endsAt }: LiveLease, how: string): SignalboxError {
  return new SignalboxError(
    'copy_source_busy',
    `The source is still being worked: ${of} (${holder}) ${how}. Stop its servers and workers, then copy again. Leases of dead workers end by themselves (--wait sets how long the copy waits for them).`,
    { details: { of, holder, endsAt } },
  )
}

/** Reclaims expired jobs with the source's own store, as any worker would. */
async function takeBack(url: string, source: CopyEnd): Promise<void> {
  const namespaces = await source.runningNamespaces()
  const unwanted = await source.unwantedJobs()
  if (namespaces.length === 0 && unwanted.length === 0) return
  await using backend = await openBackend(url, { namespace: 'default', migrate: false })
  for (const namespace of namespaces) {
    const { jobs } = backend.within(namespace)
    for (;;) {
      const { ready, dead, cancelled } = await jobs.reclaim(1_000)
      if (ready + dead + cancelled === 0) break
    }
  }
  for (const { namespace, id } of unwanted) await backend.within(namespace).jobs.cancel(id)
  const [left] = await source.runningNamespaces()
  if (left !== undefined)
    throw new SignalboxError(
      'copy_source_busy',
      `The source is still being worked: a job of namespace "${left}" is held by an open transaction. Stop its servers and workers, then copy again.`,
    )
}
