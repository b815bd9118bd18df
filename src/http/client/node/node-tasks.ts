import { encodeJson } from '../../../core/json.ts'
import { frameLimits, maxFrameBytes, type NodeFrame, type ServerFrame } from '../../contract/index.ts'
import type { NodeTask, NodeTaskContext, TaskHandler, TaskProgress } from './node-options.ts'

/**
 * The tasks of a node. They outlive its connections:
 *
 *     assign ──▶ running ──returned, threw──▶ ended, its frame kept ──settled, stale──▶ forgotten
 *        └── no slot, draining: rejected   └── sent again after every reconnect until settled
 *
 * Each attempt of a task runs once; a repeated assign gets the current state.
 */
interface NodeTasksParts {
  readonly onTask: TaskHandler
  readonly maxUnsettled: number
  /** Returns the slots of a service; undefined if the node does not offer it. */
  slotsOf(service: string): number | undefined
  /** Sends a frame now; false without a connection. */
  send(text: string): boolean
  /** Called for each change of a task. */
  onEvent(event: NodeTaskEvent): void
  /** The handler of a revoked task has returned. Its slots are free, and no other frame tells the server. */
  onSlotsFreed(): void
}

/** A change of a task on this node. */
export interface NodeTaskEvent {
  readonly taskId: string
  readonly attempt: number
  /** `stale`: the task no longer belongs to this node, and its result is dropped. `settled`: the store has its end. */
  readonly status: 'accepted' | 'rejected' | 'completed' | 'failed' | 'cancelled' | 'stale' | 'settled'
}

interface InFlight {
  readonly taskId: string
  readonly attempt: number
  readonly controller: AbortController
  /** The frame with the end of the task; undefined while it runs. */
  ended: string | undefined
  sentAt: number
  /** The progress to send next, and the timer for it. */
  progress: { readonly percent: number | null; readonly note: string | null } | undefined
  progressTimer: ReturnType<typeof setTimeout> | undefined
}

type AssignFrame = Extract<ServerFrame, { readonly type: 'task.assign' }>
type OfAttempt = Pick<AssignFrame, 'taskId' | 'attempt'>

/** The least time between two progress frames of a task. */
const progressMs = 100
/** A result without a confirmation is sent again after this time. */
const resendMs = 30_000

export class NodeTasks {
  readonly #parts: NodeTasksParts
  readonly #inFlight = new Map<string, InFlight>()
  /** Revoked tasks whose handlers have not returned: they still occupy slots. */
  readonly #revoked = new Set<InFlight>()
  /** The number of handlers that have not returned, by service. Revoked tasks count too. */
  readonly #busy = new Map<string, number>()
  #runningCount = 0
  #whenIdle: PromiseWithResolvers<void> | undefined
  isDraining = false

  constructor(parts: NodeTasksParts) {
    this.#parts = parts
  }

  /** Tasks that run, or ended but are not settled. */
  get taskIds(): readonly string[] {
    return [...this.#inFlight.keys()]
  }

  /** `taskIds` and the revoked tasks that still run: all tasks that occupy slots or wait for a confirmation. */
  get listed(): readonly string[] {
    if (this.#revoked.size === 0) return this.taskIds
    const ids = new Set(this.#inFlight.keys())
    for (const { taskId } of this.#revoked) ids.add(taskId)
    return [...ids]
  }

  /** The number of handlers that have not returned. */
  get runningCount(): number {
    return this.#runningCount
  }

  /** Resolves when nothing runs and every end is settled. */
  whenIdle(): Promise<void> {
    this.#whenIdle ??= Promise.withResolvers<void>()
    const { promise } = this.#whenIdle
    this.#checkIdle()
    return promise
  }

  assign(frame: AssignFrame): void {
    const { taskId, attempt, service } = frame
    const known = this.#inFlight.get(taskId)
    if (known !== undefined && known.attempt >= attempt) {
      if (known.attempt === attempt) this.#repeat(known)
      return
    }
    if (known !== undefined) this.#drop(known, 'A newer attempt of the task came.')
    const reason = this.#rejectReason(service)
    if (reason !== undefined) {
      this.#send({ type: 'task.reject', taskId, attempt, reason, retryAfterMs: null })
      this.#parts.onEvent({ taskId, attempt, status: 'rejected' })
      return
    }
    const inFlight: InFlight = {
      taskId,
      attempt,
      controller: new AbortController(),
      ended: undefined,
      sentAt: 0,
      progress: undefined,
      progressTimer: undefined,
    }
    this.#inFlight.set(taskId, inFlight)
    this.#send({ type: 'task.accept', taskId, attempt })
    this.#parts.onEvent({ taskId, attempt, status: 'accepted' })
    void this.#run(inFlight, {
      taskId,
      attempt,
      service,
      payload: frame.payload,
      deadlineAt: frame.deadlineAt,
    })
  }

  /** The server asks the task to stop; the end of the handler is the answer. */
  cancel({ taskId, attempt }: OfAttempt): void {
    const inFlight = this.#find({ taskId, attempt })
    if (inFlight === undefined || inFlight.ended !== undefined) return
    this.#parts.onEvent({ taskId, attempt: inFlight.attempt, status: 'cancelled' })
    inFlight.controller.abort(abortError('The task was cancelled.'))
  }

  /** The task no longer belongs to this node. */
  stale(of: OfAttempt): void {
    const inFlight = this.#find(of)
    if (inFlight === undefined) return
    this.#parts.onEvent({ taskId: inFlight.taskId, attempt: inFlight.attempt, status: 'stale' })
    this.#drop(inFlight, 'The task no longer belongs to this node.')
  }

  settled(of: OfAttempt): void {
    const inFlight = this.#find(of)
    if (inFlight === undefined) return
    this.#parts.onEvent({ taskId: inFlight.taskId, attempt: inFlight.attempt, status: 'settled' })
    this.#drop(inFlight, 'The task has ended.')
  }

  /** After a reconnect: sends again what the server may have missed. */
  repeatAll(): void {
    for (const inFlight of this.#inFlight.values()) this.#repeat(inFlight)
  }

  /** Sends results again that are unconfirmed for too long. */
  repeatOld(): void {
    const before = performance.now() - resendMs
    for (const inFlight of this.#inFlight.values())
      if (inFlight.ended !== undefined && inFlight.sentAt < before) this.#repeat(inFlight)
  }

  /** Drops all tasks. */
  dropAll(reason: string): void {
    for (const inFlight of [...this.#inFlight.values()]) this.#drop(inFlight, reason)
  }

  async #run(inFlight: InFlight, task: NodeTask): Promise<void> {
    const { service } = task
    this.#busy.set(service, (this.#busy.get(service) ?? 0) + 1)
    this.#runningCount++
    const { signal } = inFlight.controller
    const progress: NodeTaskContext['progress'] = (percent, note) =>
      this.#progress(inFlight, typeof percent === 'object' && percent !== null ? percent : { percent, note })
    let frame: NodeFrame
    try {
      frame = resultFrame(inFlight, await this.#parts.onTask(task, { signal, progress }))
    } catch (error) {
      frame = failFrame(inFlight, error)
    }
    const left = this.#busy.get(service)! - 1
    if (left === 0) this.#busy.delete(service)
    else this.#busy.set(service, left)
    this.#runningCount--
    this.#ended(inFlight, frame)
    if (this.#revoked.delete(inFlight)) this.#parts.onSlotsFreed()
    this.#checkIdle()
  }

  #ended(inFlight: InFlight, frame: NodeFrame): void {
    clearTimeout(inFlight.progressTimer)
    // The task was revoked while it ran, so the node does not send its end.
    if (this.#inFlight.get(inFlight.taskId) !== inFlight) return
    const { taskId, attempt } = inFlight
    inFlight.ended = JSON.stringify(frame)
    this.#parts.onEvent({ taskId, attempt, status: frame.type === 'task.result' ? 'completed' : 'failed' })
    this.#repeat(inFlight)
  }

  #repeat(inFlight: InFlight): void {
    const { taskId, attempt, ended } = inFlight
    if (ended === undefined) {
      this.#send({ type: 'task.accept', taskId, attempt })
      return
    }
    inFlight.sentAt = performance.now()
    this.#parts.send(ended)
  }

  #progress(inFlight: InFlight, { percent = null, note = null }: TaskProgress): void {
    if (inFlight.ended !== undefined || inFlight.controller.signal.aborted) return
    const bounded =
      percent === null || Number.isNaN(percent) ? null : Math.min(100, Math.max(0, Number(percent)))
    inFlight.progress = {
      percent: bounded,
      note: note === null ? null : String(note).slice(0, frameLimits.maxNoteChars),
    }
    if (inFlight.progressTimer === undefined) this.#sendProgress(inFlight)
  }

  #sendProgress(inFlight: InFlight): void {
    const { taskId, attempt, progress } = inFlight
    inFlight.progressTimer = undefined
    if (progress === undefined || this.#inFlight.get(taskId) !== inFlight) return
    inFlight.progress = undefined
    this.#send({ type: 'task.progress', taskId, attempt, ...progress })
    inFlight.progressTimer = setTimeout(() => this.#sendProgress(inFlight), progressMs)
  }

  /** The reason to reject a task. No reason costs the task an attempt. */
  #rejectReason(service: string): 'busy' | 'draining' | 'missing' | undefined {
    if (this.isDraining) return 'draining'
    const slots = this.#parts.slotsOf(service)
    if (slots === undefined) return 'missing'
    const isFull =
      (this.#busy.get(service) ?? 0) >= slots ||
      this.#inFlight.size - this.#runningCount >= this.#parts.maxUnsettled
    return isFull ? 'busy' : undefined
  }

  /** Attempt 0 means any. */
  #find({ taskId, attempt }: OfAttempt): InFlight | undefined {
    const inFlight = this.#inFlight.get(taskId)
    return attempt === 0 || inFlight?.attempt === attempt ? inFlight : undefined
  }

  #drop(inFlight: InFlight, reason: string): void {
    this.#inFlight.delete(inFlight.taskId)
    clearTimeout(inFlight.progressTimer)
    if (inFlight.ended === undefined) {
      this.#revoked.add(inFlight)
      inFlight.controller.abort(abortError(reason))
    }
    this.#checkIdle()
  }

  #checkIdle(): void {
    if (this.#inFlight.size > 0 || this.#runningCount > 0) return
    this.#whenIdle?.resolve()
    this.#whenIdle = undefined
  }

  #send(frame: NodeFrame): void {
    this.#parts.send(JSON.stringify(frame))
  }
}

/** The result frame; a failure if the output fits into no store or frame, because a retry would end the same way. */
function resultFrame({ taskId, attempt }: OfAttempt, output: unknown): NodeFrame {
  const frame: NodeFrame = { type: 'task.result', taskId, attempt, output: output ?? null }
  const problem = findOutputProblem(frame, output)
  if (problem === undefined) return frame
  return { type: 'task.fail', taskId, attempt, error: problem, retryable: false }
}

function findOutputProblem(
  frame: NodeFrame,
  output: unknown,
): { readonly code: string; readonly message: string } | undefined {
  try {
    encodeJson('output', output)
  } catch (error) {
    return { code: 'invalid_output', message: (error as Error).message }
  }
  const bytes = new TextEncoder().encode(JSON.stringify(frame)).length
  if (bytes <= maxFrameBytes) return undefined
  const message = `The result has ${bytes} bytes with its frame; the limit is ${maxFrameBytes}. Store it elsewhere and return its address.`
  return { code: 'too_large', message }
}

function failFrame({ taskId, attempt }: OfAttempt, thrown: unknown): NodeFrame {
  const { code, message, retryable } = describeThrown(thrown)
  const error = { ...(code === undefined ? {} : { code }), message }
  return { type: 'task.fail', taskId, attempt, error, retryable }
}

function describeThrown(thrown: unknown): { code?: string; message: string; retryable: boolean } {
  try {
    const { code, message, retryable } = (thrown ?? {}) as Record<string, unknown>
    const isCode = typeof code === 'string' && /^[\x21-\x7e]{1,191}$/.test(code)
    return {
      ...(isCode ? { code } : {}),
      message: (typeof message === 'string' ? message : String(thrown)).slice(0, frameLimits.maxMessageChars),
      retryable: retryable !== false,
    }
  } catch {
    return { message: 'The handler threw a value that cannot be read.', retryable: true }
  }
}

function abortError(message: string): Error {
  return new DOMException(message, 'AbortError')
}
