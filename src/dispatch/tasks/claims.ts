/**
 * The jobs that this process holds. A claim is (task, token): it is this process's while its lease lives, and the
 * attempt that was counted when it was made is the fence that nodes are told.
 */
import type { ClaimedRecord } from '../../jobs/index.ts'
import type { TaskSpec } from '../node.ts'
import type { SaidProgress } from './progress-writer.ts'
import { spentBefore, type TaskDocument } from './task-document.ts'

/** A task that this process claimed. */
export interface Claim {
  readonly jobId: string
  /** The job's; the wish's own is its spec's. */
  readonly kind: string
  readonly token: string
  readonly attempt: number
  readonly spec: TaskSpec
  readonly payload: unknown
  /** What its payload takes, about. */
  readonly bytes: number
  /** Attempts spent before this one. */
  readonly spent: number
  /** Those that spent none because the node went to another server. */
  readonly moveCount: number
  readonly handBackCount: number
  readonly snoozeCount: number
  /** By the store's clock. */
  readonly submittedAt: number
  /** By this process's own clock; the store may know better, never worse. */
  leaseUntil: number
  /** The node that it was given to last. */
  nodeId: string | null
  /** How far its node says it is. */
  progress: SaidProgress | null
  /** Its end is being written: nothing else changes it. */
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

  /** Replaces an older claim of the same task, which ran out. */
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
      progress: null,
      isEnding: false,
    }
    this.#claims.set(record.id, claim)
    this.#bytes += claim.bytes
    return claim
  }

  /** False: it was no longer there, or a newer one is. */
  drop(claim: Claim): boolean {
    if (this.#claims.get(claim.jobId) !== claim) return false
    this.#claims.delete(claim.jobId)
    this.#bytes -= claim.bytes
    return true
  }
}
