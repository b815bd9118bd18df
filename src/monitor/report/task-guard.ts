import type { GuardStore, OnceTally } from '../../once/index.ts'

/** A task that this report has in hand. */
export interface HeldTask {
  /** `done`: a later report of it is answered as a duplicate. `failed`: it may be reported again at once. */
  end(how: 'done' | 'failed'): Promise<void>
}

export interface TaskGuardParts {
  readonly guards: GuardStore
  readonly tally: OnceTally
}

const space = 'monitor.task'

/** Takes a task in hand and keeps it while the report goes on; or says that another has it, or that it was done. */
export async function takeTask(
  { guards, tally }: TaskGuardParts,
  taskId: string,
  { lockTtlMs, taskKeepMs }: { readonly lockTtlMs: number; readonly taskKeepMs: number },
): Promise<HeldTask | 'busy' | 'duplicate'> {
  const [standing] = await guards.claim([
    {
      space,
      key: taskId,
      leaseMs: lockTtlMs,
      keepMs: taskKeepMs,
      mode: 'at-least-once',
      fingerprint: null,
    },
  ])
  tally.claimed(space, taskId, standing!)
  if (standing!.status === 'done') return 'duplicate'
  if (standing!.status !== 'run') return 'busy'
  const ref = { space, key: taskId, token: standing!.token }
  // Should it be lost nevertheless, two report the same: every write is conditional, so nothing is notified twice.
  const renewal = setInterval(() => {
    guards.renew(ref, lockTtlMs).catch(() => undefined)
  }, lockTtlMs / 3)
  renewal.unref()
  return {
    async end(how) {
      clearInterval(renewal)
      await guards.settle([{ ...ref, end: how, result: null }])
    },
  }
}
