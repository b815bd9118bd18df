/**
 * The claims of this process. It holds a task while the lease of the claim is valid. The claim's attempt is the fencing
 * number that nodes get.
 */

import { encodeJson } from '../../core/json.ts'
import { createLoop, type Loop } from '../../core/loop.ts'
import { createNotifier, type Notifier } from '../../core/notifier.ts'
import {
  type ClaimedRecord,
  Completer,
  cancelTopic,
  findCancelled,
  type JobRecord,
  type JobStore,
  renewLeases,
  type Verdict,
} from '../../jobs/index.ts'
import type { Engine } from '../engine.ts'
import type { TaskError, TaskSpec } from '../node.ts'
import type { Settled } from '../registry/command.ts'
import { decodeTask, encodeFault, encodeOutput, spentBefore, type TaskDocument } from './task-document.ts'
import type { ReportedProgress } from './task-progress.ts'

/** A task that this process claimed. */
export interface Claim {
  readonly jobId: string
  /** The kind of the job. `spec.kind` is the kind of its demand. */
  readonly kind: string
  readonly token: string
  readonly attempt: number
  readonly spec: TaskSpec
  readonly payload: unknown
  /** The approximate size of the payload. */
  readonly bytes: number
  /** Attempts spent before this one. */
  readonly spent: number
  /** Earlier attempts that do not count as spent, because their node moved to another server. */
  readonly moveCount: number
  /** The node of the last attempt before. */
  readonly shunned: string | null
  readonly handBackCount: number
  readonly snoozeCount: number
  /** By the store's clock. */
  readonly submittedAt: number
  /** By this process's monotonic clock. The lease is valid at least until then. */
  leaseUntil: number
  /** The node that got the task last, and when. */
  nodeId: string | null
  assignedAt: number | null
  /** The last progress that its node reported. */
  progress: ReportedProgress | null
  /** The end of the claim is being written: nothing else may change the claim. */
  isEnding: boolean
}

/** The claims, by task. */
export class Claims {
  readonly #claims = new Map<string, Claim>()
  #bytes = 0

  get size(): number {
    return this.#claims.size
  }

  get bytes(): number {
    return this.#bytes
  }

  get(taskId: string): Claim | undefined {
    return this.#claims.get(taskId)
  }

  values(): IterableIterator<Claim> {
    return this.#claims.values()
  }

  /** Adds a claim. It replaces an older claim of the same task, whose lease has ended. */
  add(record: ClaimedRecord, document: TaskDocument, spec: TaskSpec, leaseUntil: number): Claim {
    const older = this.#claims.get(record.id)
    if (older !== undefined) this.drop(older)
    const claim: Claim = {
      jobId: record.id,
      kind: record.kind,
      token: record.token,
      attempt: record.attempt,
      spec,
      payload: document.payload,
      bytes: record.payload.length,
      ...spentBefore(record),
      handBackCount: record.handBackCount,
      snoozeCount: record.snoozeCount,
      submittedAt: record.createdAt,
      leaseUntil,
      nodeId: null,
      assignedAt: null,
      progress: null,
      isEnding: false,
    }
    this.#claims.set(record.id, claim)
    this.#bytes += claim.bytes
    return claim
  }

  /** Removes a claim. False: it was removed before, or a newer claim replaced it. */
  drop(claim: Claim): boolean {
    if (this.#claims.get(claim.jobId) !== claim) return false
    this.#claims.delete(claim.jobId)
    this.#bytes -= claim.bytes
    return true
  }
}

const batchSize = 1_000

/** Renews the leases of all claims until it is stopped. */
export class LeaseRenewer {
  readonly #engine: Engine
  readonly #cancelNotifier: Notifier = createNotifier()
  #loops: Loop[] = []
  #unlisten: (() => void) | null = null

  constructor(engine: Engine) {
    this.#engine = engine
  }

  get healthy(): boolean {
    return this.#loops.every(({ healthy }) => healthy)
  }

  start(): void {
    const { notifier, options, onError } = this.#engine
    const { leaseMs } = options
    this.#unlisten = notifier.listen([cancelTopic], () => this.#cancelNotifier.wake())
    const backoff = { baseMs: 50, maxMs: Math.min(2_000, Math.floor(leaseMs / 6)) }
    this.#loops = [
      createLoop({
        name: 'dispatch.leases',
        idleMs: Math.floor(leaseMs / 3),
        watchdogMs: leaseMs,
        backoff,
        step: () => this.#renew(),
      }),
      createLoop({
        name: 'dispatch.cancellations',
        idleMs: leaseMs,
        notifier: this.#cancelNotifier,
        backoff,
        step: () => this.#checkCancellations(),
      }),
    ]
    for (const loop of this.#loops) loop.events.on('failed', ({ error }) => onError(error))
  }

  async stop(withinMs: number): Promise<void> {
    this.#unlisten?.()
    await Promise.all(this.#loops.map((loop) => loop.stop({ graceMs: withinMs })))
  }

  /** Checks for cancellation requests, as if a wake-up had announced one. */
  checkCancellations(): void {
    this.#cancelNotifier.wake()
  }

  /** Gives up claims whose lease has ended, except those whose end is being written. */
  checkExpired(): void {
    const now = this.#engine.monotonicMs()
    for (const claim of this.#engine.claims.values())
      if (claim.leaseUntil < now && !claim.isEnding) this.#engine.lose(claim)
  }

  async #renew(): Promise<void> {
    const { jobs, claims, options } = this.#engine
    const parts = {
      ...{ store: jobs, leaseMs: options.leaseMs, isEnding: (claim: Claim) => claim.isEnding },
      lose: (claim: Claim) => this.#engine.lose(claim),
      cancel: (claim: Claim) => this.#cancel(claim),
    }
    for (const batch of batches(claims)) await renewLeases(batch, parts)
  }

  async #checkCancellations(): Promise<void> {
    const { jobs, claims } = this.#engine
    for (const batch of batches(claims)) {
      for (const claim of await findCancelled(jobs, batch)) this.#cancel(claim)
    }
  }

  #cancel({ isEnding, jobId }: Claim): void {
    if (!isEnding) this.#engine.post({ kind: 'cancel', taskId: jobId, reason: null })
  }
}

/** All claims in batches. Claims whose end is being written are included: they need their lease most. */
function* batches(claims: Claims): Generator<readonly Claim[]> {
  const all = [...claims.values()]
  for (let at = 0; at < all.length; at += batchSize) yield all.slice(at, at + batchSize)
}

/** How a claim ends. */
export type Ending = Pick<Verdict, 'state' | 'result' | 'error'> & {
  readonly delayMs?: number
  readonly handBackCount?: number
}

/** Writes how claims ended, and counts the bytes of the unwritten results. */
export class TaskCompleter {
  readonly #completer: Completer
  #bytes = 0

  constructor(store: Pick<JobStore, 'settle' | 'outcomes'>, onError: (error: unknown) => void) {
    this.#completer = new Completer(store, { onError })
  }

  /** How many ends are unwritten. */
  get size(): number {
    return this.#completer.size
  }

  /** The approximate size of the unwritten results. */
  get bytes(): number {
    return this.#bytes
  }

  /** Writes the end of a claim that is not ending yet. Calls `onWritten` once: whether the store wrote it. */
  write(
    claim: Claim,
    { state, result, error, delayMs = 0, handBackCount = claim.handBackCount }: Ending,
    onWritten: (isWritten: boolean) => void,
  ): void {
    claim.isEnding = true
    const bytes = result?.length ?? 0
    this.#bytes += bytes
    const verdict: Verdict = {
      jobId: claim.jobId,
      token: claim.token,
      state,
      attempt: claim.attempt,
      handBackCount,
      snoozeCount: claim.snoozeCount,
      delayMs,
      ranMs: null,
      result,
      error,
    }
    this.#completer.settle(claim, verdict, (isWritten) => {
      this.#bytes -= bytes
      onWritten(isWritten)
    })
  }

  /** Resolves when all ends are written or given up. */
  idle(): Promise<void> {
    return this.#completer.idle()
  }
}

/** The attempt of this node that ended the task; null: this node did not end it. */
export function attemptThatEnded(record: JobRecord | undefined, nodeId: string): number | null {
  if (record === undefined || record.finishedAt === null) return null
  return decodeTask(record).nodeId === nodeId ? record.attempt : null
}

/** Encodes the end of a task. An output that cannot be stored fails the task. */
export function endingOf(
  effect: Settled,
): Pick<Settled, 'end' | 'output' | 'error'> & { readonly ending: Ending } {
  const { end, output, nodeId } = effect
  if (end !== 'completed') {
    const error: TaskError = effect.error ?? { code: 'failed', message: 'The task failed.' }
    const state = end === 'failed' ? 'dead' : 'cancelled'
    return { end, output: null, error, ending: { state, result: null, error: encodeFault(error, nodeId) } }
  }
  try {
    const result = encodeOutput(nodeId, encodeJson('output', output))
    return { end, output, error: null, ending: { state: 'completed', result, error: null } }
  } catch (thrown) {
    const { code = 'failed', message = 'The output cannot be kept.' } = thrown as Partial<TaskError>
    const error = { code, message }
    const ending: Ending = { state: 'dead', result: null, error: encodeFault(error, nodeId) }
    return { end: 'failed', output: null, error, ending }
  }
}
