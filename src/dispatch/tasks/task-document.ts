/** A task as its job keeps it: what was asked for in the payload, what came of it in the result or the error. */

import { encodeError } from '../../core/describe-error.ts'
import { SignalboxError } from '../../core/errors.ts'
import type { ClaimedRecord, JobRecord, NewJob } from '../../jobs/index.ts'
import { anyKind, demandKind } from '../matching/demand-kind.ts'
import type { TaskError, TaskSpec, TaskStatus } from '../node.ts'
import type { FoundTask, Task, TaskEvent } from './task.ts'

/** The queue of all tasks. */
export const dispatchQueue = 'signalbox.dispatch'
/**
 * A job's own count of attempts is the fence that rises with every claim. How many attempts a task has spent is kept
 * with its error, for a server that died with a waiting task spent none.
 */
const maxClaims = 1_000

/** What a task asks for. */
export interface TaskTerms
  extends Pick<
    TaskSpec,
    'service' | 'uses' | 'requires' | 'prefers' | 'priority' | 'tenant' | 'session' | 'idleMs' | 'retryable'
  > {
  /** From submit to end. */
  readonly deadlineMs: number | null
}

/** What a job of the queue holds. */
export interface TaskDocument extends TaskTerms {
  readonly payload: unknown
}

/** The job of a task. `kind` is its wish's, or that for anybody; `payload` is JSON text already. */
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
    // Two who add the same task, one of them taken for dead, add it once.
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
  throw new SignalboxError('undecodable', `Job "${id}" in the queue of tasks holds no task.`)
}

/** What became of the attempts before. */
export interface Spent {
  /** Those that count. */
  readonly spent: number
  /** Those that do not, because their node went to another server. */
  readonly moveCount: number
}

/** How many attempts were spent before. */
export function spentBefore({ error }: JobRecord): Spent {
  const told = parse(error) as Partial<Record<keyof Spent, unknown>> | null
  return { spent: countOf(told?.spent), moveCount: countOf(told?.moveCount) }
}

function countOf(value: unknown): number {
  return Number.isSafeInteger(value) ? (value as number) : 0
}

/** The error of an attempt, as the job keeps it until the next. */
export function encodeSpent({ code, message }: TaskError, { spent, moveCount }: Spent): string {
  return JSON.stringify({ ...(JSON.parse(encodeError({ code, message })) as object), spent, moveCount })
}

/** What is placed. Instants are those of this process's clock, reckoned from the store's. */
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
  const { deadlineMs } = document
  const { spent, moveCount } = spentBefore(record)
  return {
    service: document.service,
    uses: document.uses,
    requires: document.requires,
    prefers: document.prefers,
    priority: document.priority,
    tenant: document.tenant,
    session: document.session,
    idleMs: document.idleMs,
    retryable: document.retryable,
    kind: record.kind === anyKind ? demandKind(document) : record.kind,
    taskId: record.id,
    attempt: record.attempt,
    maxAttempts: record.attempt + Math.max(0, maxAttempts - 1 - spent),
    moveCount,
    submittedAt,
    deadlineAt: deadlineMs === null ? null : submittedAt + deadlineMs,
  }
}

/** The end of a task that completed, as its job keeps it. */
export function encodeOutput(nodeId: string | null, output: string): string {
  return `{"nodeId":${JSON.stringify(nodeId)},"output":${output}}`
}

/** The end of one that did not. */
export function encodeFault({ code, message }: TaskError, nodeId: string | null): string {
  return JSON.stringify({ ...(JSON.parse(encodeError({ code, message })) as object), nodeId })
}

/** A task as the store knows it. */
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

/** The same with what it was submitted with; of a job that holds no task, as if nothing had been said. */
export function decodeFoundTask(record: JobRecord): FoundTask {
  const { service: _, ...said } = (parse(record.payload) ?? {}) as Partial<TaskDocument>
  const unsaid = {
    ...{ uses: {}, requires: [], prefers: [], payload: null, priority: record.priority, tenant: 'default' },
    ...{ session: null, deadlineMs: null, idleMs: null, retryable: true, progress: null },
  }
  return { ...unsaid, ...said, ...decodeTask(record) }
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

/** The present state as the first thing that `watch` tells. */
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
  if (text === null) return null
  try {
    return JSON.parse(text)
  } catch {
    return null
  }
}
