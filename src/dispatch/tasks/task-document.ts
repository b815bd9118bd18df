/** Encodes tasks as jobs: the payload holds the submit, the result or the error holds the outcome. */

import { hash } from 'node:crypto'
import { encodeError } from '../../core/describe-error.ts'
import { SignalboxError } from '../../core/errors.ts'
import { taskQueue } from '../../core/job-words.ts'
import { parseJson } from '../../core/json.ts'
import type { ClaimedRecord, JobRecord, NewJob } from '../../jobs/index.ts'
import type { Asked } from '../matching/demand.ts'
import type { TaskError, TaskSpec, TaskStatus } from '../node.ts'
import type { FoundTask, Task, TaskEvent, TaskTerms } from './task.ts'

/** The queue of all tasks. */
export const dispatchQueue: typeof taskQueue = taskQueue
/**
 * The job's attempt count is the fencing number, which rises with every claim. The attempts that a task has spent are
 * stored with its error: a server that died with a waiting task spent none.
 */
const maxClaims = 1_000

/** The payload of a task's job. */
export interface TaskDocument extends TaskTerms {
  readonly payload: unknown
}

/** The kind that any server claims. It is used when the cluster state has no capacity for another demand. */
export const anyKind = '~'

/** Job stores keep kinds of up to 191 characters; the mark and the hash take 23 of them. */
const maxNameLength = 168

/**
 * The requirements of a task as one text, the same on every server. It is the kind of the task's job, so that a server
 * can claim only tasks that its own nodes could run. A task with one slot and no requirements has the service's name
 * as its kind. The order of requirements makes no difference.
 */
export function demandKind({ service, uses, requires }: Asked): string {
  const isPlain = requires.length === 0 && uses[service] === 1 && Object.keys(uses).length === 1
  // A service name that looks like a hashed kind must be hashed too.
  if (isPlain && !service.includes('#') && service !== anyKind) return service
  const terms = [...new Set(requires.map(canonical))].sort()
  const digest = hash('sha256', `${canonical(service)}${canonical(uses)}[${terms.join()}]`, 'base64url')
  const name = service.length <= maxNameLength ? service : [...service].slice(0, maxNameLength).join('')
  return `${name}#${digest.slice(0, 22)}`
}

/** Whether tasks of this kind use the service. */
export function isKindOf(kind: string, service: string): boolean {
  return kind === service || kind.replace(/#[\w-]{22}$/, '') === [...service].slice(0, maxNameLength).join('')
}

/** JSON with sorted keys. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const entries = Object.entries(value).filter(([, each]) => each !== undefined)
  const pairs = entries.map(([key, each]) => `${JSON.stringify(key)}:${canonical(each)}`)
  return `{${pairs.sort().join()}}`
}

/** The job of a task. `kind` is the kind of its demand, or the kind that any server claims; `payload` is JSON text. */
export function encodeTaskJob(
  taskId: string,
  terms: TaskTerms,
  payload: string,
  kind: string = demandKind(terms),
): NewJob {
  const head = JSON.stringify(terms)
  return {
    id: taskId,
    queue: dispatchQueue,
    kind,
    payload: `${head.slice(0, -1)},"payload":${payload}}`,
    priority: terms.priority,
    // If two callers add the same task, because one was taken for dead, the store keeps one job.
    uniqueKey: taskId,
    due: { delayMs: 0 },
    maxAttempts: maxClaims,
    backoff: null,
    timeoutMs: null,
    meta: null,
  }
}

/** Throws `undecodable`. */
export function decodeDocument({ id, payload }: JobRecord): TaskDocument {
  const document = parse(payload) as Partial<TaskDocument> | null
  if (typeof document?.service === 'string' && typeof document.uses === 'object') {
    return document as TaskDocument
  }
  throw new SignalboxError('undecodable', `Job "${id}" in the queue of tasks does not contain a task.`)
}

/** The attempts of a task before the present one. */
export interface Spent {
  /** How many count as spent. */
  readonly spent: number
  /** How many do not count, because their node moved to another server. */
  readonly moveCount: number
  /** The node of the last one. */
  readonly shunned: string | null
}

/** Reads the earlier attempts from the job's error. */
export function spentBefore({ error }: JobRecord): Spent {
  const stored = parse(error) as Partial<Record<keyof Spent, unknown>> | null
  const shunned = typeof stored?.shunned === 'string' ? stored.shunned : null
  return { spent: countOf(stored?.spent), moveCount: countOf(stored?.moveCount), shunned }
}

function countOf(value: unknown): number {
  return Number.isSafeInteger(value) ? (value as number) : 0
}

/** Encodes the error of an attempt. The job keeps it until the next attempt ends. */
export function encodeSpent({ code, message }: TaskError, { spent, moveCount, shunned }: Spent): string {
  const error = JSON.parse(encodeError({ code, message })) as object
  return JSON.stringify({ ...error, spent, moveCount, shunned })
}

/** The registry's view of a task. Instants of the store's clock are converted to this process's clock. */
export function specOf(
  record: ClaimedRecord,
  document: TaskDocument,
  {
    now,
    leaseMs,
    maxAttempts,
  }: { readonly now: number; readonly leaseMs: number; readonly maxAttempts: number },
): TaskSpec {
  const claimedAt = record.leaseEndsAt - leaseMs
  const submittedAt = now - Math.max(0, claimedAt - record.createdAt)
  const { payload: _, deadlineMs, ...terms } = document
  const { spent, moveCount, shunned } = spentBefore(record)
  return {
    ...terms,
    kind: record.kind === anyKind ? demandKind(document) : record.kind,
    taskId: record.id,
    attempt: record.attempt,
    maxAttempts: record.attempt + Math.max(0, maxAttempts - 1 - spent),
    moveCount,
    shunned,
    submittedAt,
    deadlineAt: deadlineMs === null ? null : submittedAt + deadlineMs,
  }
}

/** Encodes the result of a completed task. */
export function encodeOutput(nodeId: string | null, output: string): string {
  return `{"nodeId":${JSON.stringify(nodeId)},"output":${output}}`
}

/** Encodes the error of a failed or cancelled task. */
export function encodeFault({ code, message }: TaskError, nodeId: string | null): string {
  return JSON.stringify({ ...(JSON.parse(encodeError({ code, message })) as object), nodeId })
}

/** Decodes a task from its job. */
export function decodeTask(record: JobRecord): Task {
  const { id, attempt, createdAt, finishedAt } = record
  const status = statusOf(record)
  const ended = finishedAt !== null
  const result = parse(record.result) as { nodeId?: string | null; output?: unknown } | null
  const fault = parse(record.error) as { code?: string; message?: string; nodeId?: string | null } | null
  return {
    taskId: id,
    status,
    attempt,
    nodeId: (ended ? (result?.nodeId ?? fault?.nodeId) : null) ?? null,
    service: (parse(record.payload) as { service?: string } | null)?.service ?? '',
    output: status === 'completed' ? (result?.output ?? null) : null,
    error: status === 'failed' || status === 'cancelled' ? errorOf(status, fault) : null,
    submittedAt: createdAt,
    finishedAt,
  }
}

/** Decodes a task with its submit options. A job that does not contain a task gets the default options. */
export function decodeFoundTask(record: JobRecord): FoundTask {
  const { service: _, ...terms } = (parse(record.payload) ?? {}) as Partial<TaskDocument>
  const defaults = {
    ...{ uses: {}, requires: [], prefers: [], payload: null, priority: record.priority, tenant: 'default' },
    ...{ session: null, deadlineMs: null, idleMs: null, retryable: true, progress: null },
  }
  return { ...defaults, ...terms, ...decodeTask(record) }
}

function errorOf(
  status: 'failed' | 'cancelled',
  fault: { code?: string; message?: string } | null,
): TaskError {
  if (status === 'cancelled') {
    const isOwn = fault?.code === 'cancelled' && fault.message !== undefined
    return { code: 'cancelled', message: isOwn ? fault.message! : 'The task was cancelled.' }
  }
  return { code: fault?.code ?? 'failed', message: fault?.message ?? 'The task failed.' }
}

function statusOf({ state }: JobRecord): TaskStatus {
  if (state === 'completed' || state === 'cancelled') return state
  return state === 'dead' ? 'failed' : 'waiting'
}

/** The present state of a task as an event of `watch`. */
export function eventOf({ taskId, attempt, status, nodeId, output, error }: Task, at: number): TaskEvent {
  const same = { taskId, attempt, at }
  switch (status) {
    case 'waiting':
      return { ...same, status }
    case 'assigned':
    case 'running':
      return { ...same, status, nodeId }
    case 'completed':
      return { ...same, status, nodeId, output }
    case 'failed':
    case 'cancelled':
      return { ...same, status, nodeId, error: error ?? { code: status, message: 'It ended.' } }
  }
}

function parse(text: string | null): unknown {
  return text === null ? null : parseJson(text, null)
}
