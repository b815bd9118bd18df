import { encodeJson } from '../../../core/json.ts'
import { frameLimits, maxFrameBytes, type NodeFrame, type ServerFrame } from '../../contract/index.ts'
import type { NodeTask, NodeTaskContext, TaskHandler, TaskProgress } from './node-options.ts'

/**
 * The tasks in a node's hands, whatever becomes of its connections:
 *
 *     assign ──▶ running ──returned, threw──▶ ended, its frame kept ──settled, stale──▶ forgotten
 *        └── no slot, draining: rejected   └── sent again after every reconnect, until then
 *
 * A task and attempt run once; an assign that comes again is answered with how it stands.
 */
export interface NodeTasksParts {
  readonly onTask: TaskHandler
  readonly maxUnsettled: number
  /** Undefined: the service is not offered. */
  slotsOf(service: string): number | undefined
  /** Sends now or never; false when there is no connection. */
  send(text: string): boolean
  /** Something happened to a task. */
  tell(event: NodeTaskEvent): void
  /** The handler of a task that was taken away has returned: its slots are free, and no frame tells so. */
  freed(): void
}

/** What happened to a task here. */
export interface NodeTaskEvent {
  readonly taskId: string
  readonly attempt: number
  /** `stale`: it is not this node's any more, and what it answers is dropped. `settled`: a store keeps its end. */
  readonly status: 'accepted' | 'rejected' | 'completed' | 'failed' | 'cancelled' | 'stale' | 'settled'
}

interface InHand {
  readonly taskId: string
  readonly attempt: number
  readonly controller: AbortController
  /** Its end as it is sent; undefined while it runs. */
  ended: string | undefined
  sentAt: number
  /** What is to be told next, and the timer for it. */
  progress: { readonly percent: number | null; readonly note: string | null } | undefined
  progressTimer: ReturnType<typeof setTimeout> | undefined
}

type AssignFrame = Extract<ServerFrame, { readonly type: 'task.assign' }>
type OfAttempt = Pick<AssignFrame, 'taskId' | 'attempt'>

/** Progress of one task is told this often at most. */
const progressMs = 100
/** A server that has the result and does not confirm it is told again. */
const resendMs = 30_000

export class NodeTasks {
  readonly #parts: NodeTasksParts
  readonly #inHand = new Map<string, InHand>()
  /** Taken away, and the handler has not returned: they fill slots still. */
  readonly #takenAway = new Set<InHand>()
  /** Handlers that have not returned, by service; also those whose task was taken away. */
  readonly #busy = new Map<string, number>()
  #runningCount = 0
  #whenIdle: PromiseWithResolvers<void> | undefined
  isDraining = false

  constructor(parts: NodeTasksParts) {
    this.#parts = parts
  }

  /** Tasks that it knows: running, or ended and not settled. */
  get taskIds(): readonly string[] {
    return [...this.#inHand.keys()]
  }

  /** Those and the ones that were taken away and still run: all that fills slots, or waits for an answer. */
  get listed(): readonly string[] {
    if (this.#takenAway.size === 0) return this.taskIds
    const ids = new Set(this.#inHand.keys())
    for (const { taskId } of this.#takenAway) ids.add(taskId)
    return [...ids]
  }

  /** How many handlers have not returned. */
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
    const known = this.#inHand.get(taskId)
    if (known !== undefined && known.attempt >= attempt) {
      if (known.attempt === attempt) this.#repeat(known)
      return
    }
    if (known !== undefined) this.#drop(known, 'A newer attempt of the task came.')
    const excuse = this.#excuse(service)
    if (excuse !== undefined) {
      this.#send({ type: 'task.reject', taskId, attempt, reason: excuse, retryAfterMs: null })
      this.#parts.tell({ taskId, attempt, status: 'rejected' })
      return
    }
    const inHand: InHand = {
      taskId,
      attempt,
      controller: new AbortController(),
      ended: undefined,
      sentAt: 0,
      progress: undefined,
      progressTimer: undefined,
    }
    this.#inHand.set(taskId, inHand)
    this.#send({ type: 'task.accept', taskId, attempt })
    this.#parts.tell({ taskId, attempt, status: 'accepted' })
    void this.#run(inHand, { taskId, attempt, service, payload: frame.payload, deadlineAt: frame.deadlineAt })
  }

  /** The server wants it stopped; the handler's own end answers for it. */
  cancel({ taskId, attempt }: OfAttempt): void {
    const inHand = this.#find({ taskId, attempt })
    if (inHand === undefined || inHand.ended !== undefined) return
    this.#parts.tell({ taskId, attempt: inHand.attempt, status: 'cancelled' })
    inHand.controller.abort(abortError('The task was cancelled.'))
  }

  /** It is not this node's any more. */
  stale(of: OfAttempt): void {
    const inHand = this.#find(of)
    if (inHand === undefined) return
    this.#parts.tell({ taskId: inHand.taskId, attempt: inHand.attempt, status: 'stale' })
    this.#drop(inHand, 'The task is not in the hands of this node any more.')
  }

  settled(of: OfAttempt): void {
    const inHand = this.#find(of)
    if (inHand === undefined) return
    this.#parts.tell({ taskId: inHand.taskId, attempt: inHand.attempt, status: 'settled' })
    this.#drop(inHand, 'The task has ended.')
  }

  /** After a reconnect: what the server may not have heard is said again. */
  repeatAll(): void {
    for (const inHand of this.#inHand.values()) this.#repeat(inHand)
  }

  /** Says again what was said long ago and not confirmed. */
  repeatOld(): void {
    const before = performance.now() - resendMs
    for (const inHand of this.#inHand.values())
      if (inHand.ended !== undefined && inHand.sentAt < before) this.#repeat(inHand)
  }

  /** Gives all of it up. */
  dropAll(reason: string): void {
    for (const inHand of [...this.#inHand.values()]) this.#drop(inHand, reason)
  }

  async #run(inHand: InHand, task: NodeTask): Promise<void> {
    const { service } = task
    this.#busy.set(service, (this.#busy.get(service) ?? 0) + 1)
    this.#runningCount++
    const { signal } = inHand.controller
    const progress: NodeTaskContext['progress'] = (percent, note) =>
      this.#progress(inHand, typeof percent === 'object' && percent !== null ? percent : { percent, note })
    let frame: NodeFrame
    try {
      frame = resultFrame(inHand, await this.#parts.onTask(task, { signal, progress }))
    } catch (error) {
      frame = failFrame(inHand, error)
    }
    const left = this.#busy.get(service)! - 1
    if (left === 0) this.#busy.delete(service)
    else this.#busy.set(service, left)
    this.#runningCount--
    this.#ended(inHand, frame)
    if (this.#takenAway.delete(inHand)) this.#parts.freed()
    this.#checkIdle()
  }

  #ended(inHand: InHand, frame: NodeFrame): void {
    clearTimeout(inHand.progressTimer)
    // Taken away while it ran: nobody waits for its end.
    if (this.#inHand.get(inHand.taskId) !== inHand) return
    const { taskId, attempt } = inHand
    inHand.ended = JSON.stringify(frame)
    this.#parts.tell({ taskId, attempt, status: frame.type === 'task.result' ? 'completed' : 'failed' })
    this.#repeat(inHand)
  }

  #repeat(inHand: InHand): void {
    const { taskId, attempt, ended } = inHand
    if (ended === undefined) {
      this.#send({ type: 'task.accept', taskId, attempt })
      return
    }
    inHand.sentAt = performance.now()
    this.#parts.send(ended)
  }

  #progress(inHand: InHand, { percent = null, note = null }: TaskProgress): void {
    if (inHand.ended !== undefined || inHand.controller.signal.aborted) return
    const bounded =
      percent === null || Number.isNaN(percent) ? null : Math.min(100, Math.max(0, Number(percent)))
    inHand.progress = {
      percent: bounded,
      note: note === null ? null : String(note).slice(0, frameLimits.maxNoteChars),
    }
    if (inHand.progressTimer === undefined) this.#tellProgress(inHand)
  }

  #tellProgress(inHand: InHand): void {
    const { taskId, attempt, progress } = inHand
    inHand.progressTimer = undefined
    if (progress === undefined || this.#inHand.get(taskId) !== inHand) return
    inHand.progress = undefined
    this.#send({ type: 'task.progress', taskId, attempt, ...progress })
    inHand.progressTimer = setTimeout(() => this.#tellProgress(inHand), progressMs)
  }

  /** Why not, in the words that cost the task no attempt. */
  #excuse(service: string): 'busy' | 'draining' | 'missing' | undefined {
    if (this.isDraining) return 'draining'
    const slots = this.#parts.slotsOf(service)
    if (slots === undefined) return 'missing'
    const isFull =
      (this.#busy.get(service) ?? 0) >= slots ||
      this.#inHand.size - this.#runningCount >= this.#parts.maxUnsettled
    return isFull ? 'busy' : undefined
  }

  /** Attempt 0 is any. */
  #find({ taskId, attempt }: OfAttempt): InHand | undefined {
    const inHand = this.#inHand.get(taskId)
    return attempt === 0 || inHand?.attempt === attempt ? inHand : undefined
  }

  #drop(inHand: InHand, reason: string): void {
    this.#inHand.delete(inHand.taskId)
    clearTimeout(inHand.progressTimer)
    if (inHand.ended === undefined) {
      this.#takenAway.add(inHand)
      inHand.controller.abort(abortError(reason))
    }
    this.#checkIdle()
  }

  #checkIdle(): void {
    if (this.#inHand.size > 0 || this.#runningCount > 0) return
    this.#whenIdle?.resolve()
    this.#whenIdle = undefined
  }

  #send(frame: NodeFrame): void {
    this.#parts.send(JSON.stringify(frame))
  }
}

/** A result, or the failure that it is when no store or frame can hold it: the next try would end the same. */
function resultFrame({ taskId, attempt }: OfAttempt, output: unknown): NodeFrame {
  const frame: NodeFrame = { type: 'task.result', taskId, attempt, output: output ?? null }
  const problem = unsendable(frame, output)
  if (problem === undefined) return frame
  return { type: 'task.fail', taskId, attempt, error: problem, retryable: false }
}

function unsendable(
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
  const message = `The result is of ${bytes} bytes with its frame; at most ${maxFrameBytes} can be sent. Keep it elsewhere and return where.`
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
    return { message: 'The handler threw something that cannot be read.', retryable: true }
  }
}

function abortError(message: string): Error {
  return new DOMException(message, 'AbortError')
}
