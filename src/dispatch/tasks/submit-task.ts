import { createHash } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Duration } from '../../core/duration.ts'
import { SignalboxError } from '../../core/errors.ts'
import { createId } from '../../core/ids.ts'
import { encodeJson } from '../../core/json.ts'
import { duration, flag, onlyKeys, text, whole } from '../../core/options.ts'
import type { GuardStanding, GuardStore } from '../../once/index.ts'
import { checkTerms, checkUses } from '../matching/terms.ts'
import type { SubmitOptions, TaskTerms } from './task.ts'

/** A checked submit. */
export interface ResolvedSubmit {
  readonly terms: TaskTerms
  /** JSON text. */
  readonly payload: string
  readonly idempotencyKey: string | null
  /** A hash of the whole submit, because the same key must mean the same task. Empty without a key. */
  readonly fingerprint: string
}

const keys = [
  'service',
  'uses',
  'requires',
  'prefers',
  'payload',
  'priority',
  'tenant',
  'session',
  'deadlineMs',
  'idleMs',
  'retryable',
  'idempotencyKey',
]
/** A year. */
const maxSpanMs = 31_557_600_000

/** Checks a submit. Unknown fields are refused, because a misspelt requirement would otherwise be ignored. */
export function resolveSubmit(options: SubmitOptions): ResolvedSubmit {
  onlyKeys('submit', options, keys)
  const service = text('submit.service', options.service)
  const { priority = 5, tenant = 'default', retryable = true } = options
  const terms: TaskTerms = {
    service,
    uses: checkUses('submit.uses', options.uses, service),
    requires: checkTerms('submit.requires', options.requires ?? []),
    prefers: checkTerms('submit.prefers', options.prefers ?? []),
    priority: whole('submit.priority', priority, { max: 9 }),
    tenant: text('submit.tenant', tenant),
    session: optionalText('submit.session', options.session),
    deadlineMs: span('submit.deadlineMs', options.deadlineMs),
    idleMs: span('submit.idleMs', options.idleMs),
    retryable: flag('submit.retryable', retryable),
  }
  const payload = encodeJson('submit.payload', options.payload)
  const idempotencyKey = optionalText('submit.idempotencyKey', options.idempotencyKey)
  const fingerprint =
    idempotencyKey === null
      ? ''
      : createHash('sha256').update(JSON.stringify(terms)).update(payload).digest('hex')
  return { terms, payload, idempotencyKey, fingerprint }
}

function span(name: string, value: Duration | null | undefined): number | null {
  return value === undefined || value === null ? null : duration(name, value, { min: 1, max: maxSpanMs })
}

function optionalText(name: string, value: string | null | undefined): string | null {
  return value === undefined || value === null ? null : text(name, value)
}

/** The parts that keys need. */
export interface TaskKeysParts {
  readonly guards: Pick<GuardStore, 'claim' | 'settle'>
  /** Whether the job of this task exists. */
  readonly exists: (taskId: string) => Promise<boolean>
  readonly write: (taskId: string) => Promise<void>
  readonly monotonicMs: () => number
}

const spaces = { task: 'dispatch.task', intent: 'dispatch.intent' } as const
const dayMs = 86_400_000
const leaseMs = 30_000
/** After this time a writer no longer relies on its lease. */
const writeWithinMs = 15_000
const waitsMs = [20, 50, 100, 200, 400, 800]

/**
 * Finds the task of an idempotency key, or writes it. Keys are remembered for 24 hours. Each key has two guards:
 *
 *   intent (the id of the task) ─▶ the job is written under that id ─▶ task (the job is written; its id)
 *
 * A caller that dies between these steps leaves the id. After its lease, the next caller with the key finds the job
 * under that id or writes it. So there is never a second job.
 */
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
        if (waitMs !== null) await sleep(waitMs)
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
  const { guards, exists, write, monotonicMs } = parts
  try {
    const intent = await claim(parts, spaces.intent, key, fingerprint)
    let taskId: string
    let isKnown = false
    if (intent.status === 'done') {
      taskId = JSON.parse(intent.result ?? 'null') as string
      isKnown = await exists(taskId)
    } else if (intent.status === 'run') {
      taskId = createId()
      const end = { space: spaces.intent, key, token: intent.token, end: 'done' } as const
      const [isWritten] = await guards.settle([{ ...end, result: JSON.stringify(taskId) }])
      if (!isWritten) throw inProgress(key)
    } else throw inProgress(key)
    if (!isKnown) {
      if (monotonicMs() - beganAt > writeWithinMs) throw inProgress(key)
      await write(taskId)
    }
    // If the lease has ended, the store refuses this write, and the next caller with the key finds the same id.
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
  // Only the guard `task` compares fingerprints. It protects the guard `intent`.
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
