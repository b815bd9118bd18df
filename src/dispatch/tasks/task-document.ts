/** A task as its job keeps it: what was asked for in the payload, what came of it in the result or the error. */

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
 * A job's own count of attempts is the fence that rises with every claim. How many attempts a task has spent is kept
 * with its error, for a server that died with a waiting task spent none.
 */
const maxClaims = 1_000

/** What a job of the queue holds. */
export interface TaskDocument extends TaskTerms {
  readonly payload: unknown
}

/** The kind that any server claims: for more demands than the cluster state holds. */
export const anyKind = '~'

/** Job stores keep kinds of up to 191 characters; the mark and the hash take 23 of them. */
const maxNameLength = 168

/**
 * What a task asks for as one text, the same on every server: the kind of its job, by which a server claims only what
 * its own nodes could do. The common case is the service's name, so that it can be read. The order of requirements
 * makes no difference.
 */
export function demandKind({ service, uses, requires }: Asked): string {
  const isPlain = requires.length === 0 && uses[service] === 1 && Object.keys(uses).length === 1
  // A service name that looks like a hashed kind must not be taken for one.
  if (isPlain && !service.includes('#') && service !== anyKind) return service
  const wishes = [...new Set(requires.map(canonical))].sort()
  const digest = hash('sha256', `${canonical(service)}${canonical(uses)}[${wishes.join()}]`, 'base64url')
  const name = service.length <= maxNameLength ? service : [...service].slice(0, maxNameLength).join('')
  return `${name}#${digest.slice(0, 22)}`
}

/** Whether a kind is of a demand for the service. */
export function isKindOf(kind: string, service: string): boolean {
  return kind === service || kind.replace(/#[\w-]{22}$/, '') === [...service].slice(0, maxNameLength).join('')
}

/** JSON with the keys of every object in order. */
function canonical(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(canonical).join()}]`
  if (typeof value !== 'object' || value === null) return JSON.stringify(value)
  const entries = Object.entries(value).filter(([, each]) => each !== undefined)
  const pairs = entries.map(([key, each]) => `${JSON.stringify(key)}:${canonical(each)}`)
  return `{${pairs.sort().join()}}`
}

/** The job of a task. `kind` is that of its demand, or the one that any server claims; `payload` is JSON text. */
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
    // Two callers that add the same task, one of them taken for dead, add it once.
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
  /** The node of the last one. */
  readonly shunned: string | null
}

/** What became of the attempts before this one. */
export function spentBefore({ error }: JobRecord): Spent {
  const told = parse(error) as Partial<Record<keyof Spent, unknown>> | null
  const shunned = typeof told?.shunned === 'string' ? told.shunned : null
  return { spent: countOf(told?.spent), moveCount: countOf(told?.moveCount), shunned }
}

function countOf(value: unknown): number {
  return Number.isSafeInteger(value) ? (value as number) : 0
}

/** The error of an attempt, as the job keeps it until the next. */
export function encodeSpent({ code, message }: TaskError, { spent, moveCount, shunned }: Spent): string {
  const error = JSON.parse(encodeError({ code, message })) as object
  return JSON.stringify({ ...error, spent, moveCount, shunned })
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

/** The present state as an event of `watch`. */
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
