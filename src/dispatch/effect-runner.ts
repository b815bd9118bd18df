/**
 * Runs the effects of the registry: sends frames, writes ends, sets timers. It never waits: answers return as
 * commands.
 */
import type { JobRecord, RunOutcome } from '../jobs/index.ts'
import type { NodeConnectionsEvent } from './connections/node-connections.ts'
import type { Engine } from './engine.ts'
import type { TaskSpec } from './node.ts'
import type { Assign, Command, Effect, EffectKind, RegistryEvent, Settled } from './registry/command.ts'
import { attemptThatEnded, type Claim, type Ending, endingOf } from './tasks/claims.ts'
import { decodeDocument, dispatchQueue, encodeSpent } from './tasks/task-document.ts'

/** An event for the log. */
export type DispatchEvent =
  | RegistryEvent
  | NodeConnectionsEvent
  | { readonly name: 'node.drained'; readonly nodeId: string; readonly epoch: number }
  | { readonly name: 'task.lost'; readonly taskId: string; readonly attempt: number }
  | { readonly name: 'store.trouble'; readonly error: unknown }
  /** Another live server has this server's name (`workerId`): this server continues under a new name. */
  | { readonly name: 'server.name_taken'; readonly serverId: string; readonly renamedTo: string }
  | { readonly name: 'command.failed'; readonly kind: string; readonly error: unknown }

type Of<Kind extends EffectKind> = Extract<Effect, { kind: Kind }>
/** A node that waits for the answer to a frame. */
type WaitingNode = { readonly nodeId: string; readonly epoch: number; readonly attempt: number }

/** Runs effects, in their order. */
export class EffectRunner {
  readonly #engine: Engine
  /** Nodes that sent a frame about a task whose end is being written. They get an answer after the write. */
  readonly #waitingNodes = new Map<string, WaitingNode[]>()

  constructor(engine: Engine) {
    this.#engine = engine
  }

  run(effects: readonly Effect[], command: Command): void {
    for (const effect of effects) {
      try {
        const handle = this.#handlers[effect.kind] as (effect: Effect, command: Command) => void
        handle(effect, command)
      } catch (error) {
        // The other effects are about other tasks and nodes.
        this.#engine.log({ name: 'command.failed', kind: `${command.kind}/${effect.kind}`, error })
      }
    }
  }

  /** The handler of each effect. */
  readonly #handlers: { readonly [Kind in EffectKind]: (effect: Of<Kind>, command: Command) => void } = {
    assign: (effect) => this.#assign(effect),
    settled: (effect) => this.#settle(effect),
    requeue: (effect) => this.#requeue(effect),
    taskChanged: (effect) => this.#publishStatus(effect),
    progress: (effect) => this.#progress(effect),
    unknownTask: (effect) => this.#unknownTask(effect),
    handBack: (effect) => this.#handBack(effect),
    cancelFrame: (effect) => this.#sendFrame('task.cancel', effect),
    stale: (effect) => this.#sendFrame('task.stale', effect),
    welcome: ({ nodeId, epoch }, command) => this.#engine.connections.welcome(command, nodeId, epoch),
    superseded: ({ nodeId, epoch, instanceId }, command) =>
      this.#engine.connections.superseded(command, nodeId, epoch, instanceId !== null),
    unknownNode: ({ nodeId, epoch }) =>
      this.#engine.connections.close(nodeId, epoch, 4404, 'say hello again'),
    nodeForgotten: ({ nodeId, epoch }) => this.#engine.connections.forgotten(nodeId, epoch),
    drainFrame: ({ nodeId, epoch }) => this.#engine.connections.send(nodeId, epoch, { type: 'drain' }),
    drained: ({ nodeId, epoch }) => this.#engine.log({ name: 'node.drained', nodeId, epoch }),
    armTimer: ({ at }) => this.#engine.armTimer(at),
    event: ({ event }) => this.#engine.log(event),
    // The mailbox handles it.
    moreWork: () => undefined,
  }

  #assign({ nodeId, epoch, taskId, attempt, service, deadlineAt }: Assign): void {
    const { connections, feed, progress, tally, post, now, monotonicMs, parts } = this.#engine
    const claim = this.#findHeld(taskId, attempt)
    if (claim === undefined || claim.leaseUntil <= monotonicMs()) {
      post({ kind: 'forget', taskId, attempt })
      return
    }
    const { payload } = claim
    claim.nodeId = nodeId
    connections.send(nodeId, epoch, { type: 'task.assign', taskId, attempt, service, payload, deadlineAt })
    tally.assigned += 1
    claim.assignedAt = now()
    parts.activity?.started({
      ...{ ...countedAs(claim), attempt, meta: null },
      ...{ runAt: claim.spec.submittedAt, startedAt: claim.assignedAt },
    })
    progress.report(claim, null)
    feed.publish({ taskId, attempt, at: now(), status: 'assigned', nodeId })
    if (isFirst(claim)) parts.placed?.(now() - claim.spec.submittedAt)
  }

  #settle(effect: Settled): void {
    const { connections } = this.#engine
    const { taskId, attempt, nodeId, epoch } = effect
    const claim = this.#findHeld(taskId, attempt)
    if (claim === undefined) {
      if (nodeId !== null) connections.send(nodeId, epoch, { type: 'task.stale', taskId, attempt })
      return
    }
    const { end, output, error, ending } = endingOf(effect)
    this.#write(claim, ending, (isWritten) => {
      const answer = isWritten ? 'task.settled' : 'task.stale'
      if (nodeId !== null) connections.send(nodeId, epoch, { type: answer, taskId, attempt })
      for (const node of this.#takeWaitingNodes(taskId)) {
        const type = node.attempt === attempt ? answer : 'task.stale'
        connections.send(node.nodeId, node.epoch, { type, taskId, attempt: node.attempt })
      }
      if (isWritten) {
        this.#countEnd(claim, end === 'failed' ? 'dead' : end)
        this.#reportEnd({ taskId, attempt, nodeId, end, output, error })
      } else this.#reportLost(taskId, attempt)
    })
  }

  #reportEnd({ taskId, attempt, nodeId, end, output, error }: Omit<Settled, 'kind' | 'epoch'>): void {
    const { feed, tally, now } = this.#engine
    tally[end] += 1
    const same = { taskId, attempt, nodeId, at: now() }
    if (end === 'completed') feed.publish({ ...same, status: end, output })
    else feed.publish({ ...same, status: end, error: error ?? { code: end, message: 'It ended.' } })
  }

  #requeue({ taskId, attempt, nodeId: by, code, error, afterMs, isFree }: Of<'requeue'>): void {
    const { connections, feed, tally, now } = this.#engine
    const claim = this.#findHeld(taskId, attempt)
    if (claim === undefined) return
    claim.nodeId = null
    const ending: Ending = {
      state: afterMs > 0 ? 'scheduled' : 'ready',
      delayMs: afterMs,
      result: null,
      error: encodeSpent(
        error,
        isFree
          ? { ...claim, moveCount: claim.moveCount + 1, shunned: by }
          : { ...claim, spent: claim.spent + 1, shunned: by },
      ),
    }
    this.#write(claim, ending, (isWritten) => {
      this.#sendStale(taskId)
      if (isWritten) {
        tally.requeued += 1
        if (!isFree) this.#countEnd(claim, 'retried')
        // The node that reported the failure may now forget the task.
        if (code === 'failed' && by !== null)
          connections.sendToNode(by, { type: 'task.settled', taskId, attempt })
        this.#engine.requeued(afterMs)
      } else {
        this.#reportLost(taskId, attempt)
      }
    })
    feed.publish({ taskId, attempt, at: now(), status: 'waiting' })
  }

  /** The claim of this attempt, unless its end is being written. */
  #findHeld(taskId: string, attempt: number): Claim | undefined {
    const claim = this.#engine.claims.get(taskId)
    return claim?.attempt === attempt && !claim.isEnding ? claim : undefined
  }

  #write(claim: Claim, ending: Ending, onWritten: (isWritten: boolean) => void): void {
    const { completer, claims } = this.#engine
    completer.write(claim, ending, (isWritten) => {
      claims.drop(claim)
      onWritten(isWritten)
      this.#engine.claimEnded()
    })
  }

  #countEnd(claim: Claim, outcome: RunOutcome): void {
    const { parts, now } = this.#engine
    const ranMs = claim.assignedAt === null ? null : now() - claim.assignedAt
    parts.activity?.ended(countedAs(claim), outcome, ranMs)
  }

  #reportLost(taskId: string, attempt: number): void {
    this.#engine.tally.lost += 1
    this.#engine.log({ name: 'task.lost', taskId, attempt })
  }

  #publishStatus({ taskId, attempt, status, nodeId }: Of<'taskChanged'>): void {
    const { claims, feed, progress, now } = this.#engine
    const claim = claims.get(taskId)
    if (status === 'waiting' && claim?.attempt === attempt) progress.report(claim, null)
    const same = { taskId, attempt, at: now() }
    feed.publish(status === 'waiting' ? { ...same, status } : { ...same, status, nodeId })
  }

  #progress({ taskId, attempt, percent, note }: Of<'progress'>): void {
    const { claims, feed, registry, progress, now } = this.#engine
    const claim = claims.get(taskId)
    const nodeId = registry.task(taskId)?.nodeId ?? null
    const at = now()
    if (claim?.attempt === attempt && nodeId !== null) progress.report(claim, { nodeId, percent, note, at })
    feed.publish({ taskId, attempt, at, status: 'progress', nodeId, percent, note })
  }

  #handBack({ taskId, attempt }: Of<'handBack'>): void {
    const claim = this.#findHeld(taskId, attempt)
    if (claim !== undefined) this.#engine.yield(claim, () => this.#sendStale(taskId))
  }

  #unknownTask({ nodeId, epoch, taskId, attempt }: Of<'unknownTask'>): void {
    const { claims, lookups, connections, post, registry } = this.#engine
    const claim = claims.get(taskId)
    if (claim?.isEnding) {
      if (attempt === 0) {
        // The node may still run the task. It gets an answer when it sends its result, or lists the task again.
        post({ kind: 'orphan', nodeId, epoch, taskId, attempt, uses: claim.spec.uses })
        return
      }
      const nodes = this.#waitingNodes.get(taskId) ?? []
      if (!nodes.some((node) => node.nodeId === nodeId && node.epoch === epoch)) {
        this.#waitingNodes.set(taskId, [...nodes, { nodeId, epoch, attempt }])
      }
      return
    }
    lookups.find(taskId, (record) => {
      const endedBy = attemptThatEnded(record, nodeId)
      const isSettled = endedBy !== null && (attempt === 0 || attempt === endedBy)
      // A frame about any attempt must not reach an attempt that the node got during the lookup.
      const isAssignedAgain = attempt === 0 && registry.task(taskId)?.nodeId === nodeId
      if (isSettled) connections.send(nodeId, epoch, { type: 'task.settled', taskId, attempt: endedBy })
      else if (!isAssignedAgain) connections.send(nodeId, epoch, { type: 'task.stale', taskId, attempt })
      // The orphan follows the frame, because it starts the time in which the node must stop the task.
      if (attempt === 0) {
        const uses = endedBy === null ? usesOf(record) : null
        post({ kind: 'orphan', nodeId, epoch, taskId, attempt, uses })
      }
    })
  }

  /** Answers `task.stale` to the waiting nodes, because the task has not ended. */
  #sendStale(taskId: string): void {
    for (const { nodeId, epoch, attempt } of this.#takeWaitingNodes(taskId)) {
      this.#engine.connections.send(nodeId, epoch, { type: 'task.stale', taskId, attempt })
    }
  }

  #takeWaitingNodes(taskId: string): readonly WaitingNode[] {
    const nodes = this.#waitingNodes.get(taskId) ?? []
    this.#waitingNodes.delete(taskId)
    return nodes
  }

  #sendFrame(
    type: 'task.cancel' | 'task.stale',
    { nodeId, epoch, taskId, attempt }: Of<'stale' | 'cancelFrame'>,
  ): void {
    this.#engine.connections.send(nodeId, epoch, { type, taskId, attempt })
  }
}

/** The slots that a task takes where it runs; null when unknown. */
function usesOf(record: JobRecord | undefined): TaskSpec['uses'] | null {
  try {
    return record === undefined ? null : decodeDocument(record).uses
  } catch {
    return null
  }
}

function countedAs({ spec }: Claim): { readonly queue: string; readonly kind: string } {
  return { queue: dispatchQueue, kind: spec.service }
}

/** Whether no node had the task before. Servers may have handed it back and claimed it again while it waited. */
function isFirst({ attempt, handBackCount, moveCount }: Claim): boolean {
  return attempt - handBackCount === 1 && moveCount === 0
}

/** Counts since the dispatcher was created. */
export class Tally {
  submitted = 0
  assigned = 0
  requeued = 0
  completed = 0
  failed = 0
  cancelled = 0
  /** Claims whose lease was lost before their end was written. */
  lost = 0
}
