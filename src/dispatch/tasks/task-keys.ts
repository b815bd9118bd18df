/**
 * Idempotency keys of tasks, remembered for 24 hours. Two guards stand behind a key:
 *
 *   intent (which id the task has) ─▶ the job is written under that id ─▶ task (it is written; this is its id)
 *
 * Whoever dies on the way leaves the id behind: the next one with the key, after the first one's lease, finds the job
 * under it or writes it, and never a second one.
 */
import { SignalboxError } from '../../core/errors.ts'
import { createId } from '../../core/ids.ts'
import type { GuardStanding, GuardStore } from '../../once/index.ts'

/** What the keys need. */
export interface TaskKeysParts {
  readonly guards: Pick<GuardStore, 'claim' | 'settle'>
  /** Whether the job of this task is there. */
  readonly isThere: (taskId: string) => Promise<boolean>
  readonly write: (taskId: string) => Promise<void>
  readonly monotonicMs: () => number
}

const spaces = { task: 'dispatch.task', intent: 'dispatch.intent' } as const
const dayMs = 86_400_000
const leaseMs = 30_000
/** Past this, a writer does not trust its lease any more. */
const writeWithinMs = 15_000
const waitsMs = [20, 50, 100, 200, 400, 800]

/** The task of a key: written now, or known from before. */
export async function taskOfKey(
  parts: TaskKeysParts,
  key: string,
  fingerprint: string,
): Promise<{ readonly taskId: string; readonly duplicate: boolean }> {
  for (const waitMs of [...waitsMs, null]) {
    const beganAt = parts.monotonicMs()
    const standing = await claim(parts, spaces.task, key, fingerprint)
    switch (standing.status) {
      case 'done':
        return { taskId: JSON.parse(standing.result ?? 'null') as string, duplicate: true }
      case 'mismatch':
        throw new SignalboxError(
          'idempotency_mismatch',
          `The idempotencyKey "${key}" was used for another task; use a new one, or submit the same task.`,
        )
      case 'run':
        return writeUnder(parts, key, fingerprint, { token: standing.token, beganAt })
      default:
        if (waitMs !== null) await new Promise((resolve) => setTimeout(resolve, waitMs))
    }
  }
  throw inProgress(key)
}

async function writeUnder(
  parts: TaskKeysParts,
  key: string,
  fingerprint: string,
  { token, beganAt }: { readonly token: string; readonly beganAt: number },
): Promise<{ readonly taskId: string; readonly duplicate: boolean }> {
  const { guards, isThere, write, monotonicMs } = parts
  try {
    const intent = await claim(parts, spaces.intent, key, fingerprint)
    let taskId: string
    let isKnown = false
    if (intent.status === 'done') {
      taskId = JSON.parse(intent.result ?? 'null') as string
      isKnown = await isThere(taskId)
    } else if (intent.status === 'run') {
      taskId = createId()
      const end = { space: spaces.intent, key, token: intent.token, end: 'done' } as const
      const [took] = await guards.settle([{ ...end, result: JSON.stringify(taskId) }])
      if (!took) throw inProgress(key)
    } else throw inProgress(key)
    if (!isKnown) {
      if (monotonicMs() - beganAt > writeWithinMs) throw inProgress(key)
      await write(taskId)
    }
    // Not taken: the lease is over, and the next caller with the key finds the same id.
    const end = { space: spaces.task, key, token, end: 'done' } as const
    await guards.settle([{ ...end, result: JSON.stringify(taskId) }])
    return { taskId, duplicate: isKnown }
  } catch (error) {
    await guards
      .settle([{ space: spaces.task, key, token, end: 'failed', result: null }])
      .catch(() => undefined)
    throw error
  }
}

async function claim(
  { guards }: TaskKeysParts,
  space: string,
  key: string,
  fingerprint: string,
): Promise<GuardStanding> {
  const mode = 'at-least-once' as const
  // The first guard compares; behind it there is one task only.
  const own = space === spaces.intent ? null : fingerprint
  const [standing] = await guards.claim([{ space, key, leaseMs, keepMs: dayMs, mode, fingerprint: own }])
  return standing!
}

function inProgress(key: string): SignalboxError {
  return new SignalboxError(
    'in_progress',
    `A submit with the idempotencyKey "${key}" has begun and has not ended yet; try again in a moment.`,
  )
}
