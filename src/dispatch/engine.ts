/**
 * Connects the registry with the outside: its mailbox, the claims, the connections to nodes, the other servers, and the
 * timer.
 *
 *   store ─claims─▶ fetcher ─▶ mailbox ─▶ registry ─▶ effects ─▶ completer ─▶ store
 *   nodes ─frames─▶ connections ───────▲                       └──────▶ connections ─▶ nodes
 */
import { setTimeout as sleep } from 'node:timers/promises'
import {
  type JobActivity,
  type JobStore,
  type JobsNotifier,
  type LogStore,
  queueTopic,
} from '../jobs/index.ts'
import type { ClusterStore } from './cluster/cluster-store.ts'
import { Sharing } from './cluster/server-sharing.ts'
import { NodeConnections, sweepMs } from './connections/node-connections.ts'
import type { ResolvedDispatchOptions } from './dispatch-options.ts'
import { type DispatchEvent, EffectRunner, Tally } from './effect-runner.ts'
import type { TaskSpec } from './node.ts'
import type { Command, CommandKind } from './registry/command.ts'
import { Mailbox } from './registry/mailbox.ts'
import { Registry } from './registry/registry.ts'
import { type Claim, Claims, LeaseRenewer, TaskCompleter } from './tasks/claims.ts'
import { anyKind, dispatchQueue } from './tasks/task-document.ts'
import { Lookups, TaskFetcher } from './tasks/task-fetcher.ts'
import { ProgressWriter } from './tasks/task-progress.ts'
import { TaskFeed } from './tasks/task-reads.ts'
import { inTime } from './time-limits.ts'

/** The parts of an engine. */
export interface EngineParts {
  readonly jobs: JobStore
  /** Other servers read the progress of tasks here. */
  readonly logs: Pick<LogStore, 'add' | 'progress'>
  readonly notifier: JobsNotifier
  /** The cluster state of the servers that share the nodes. */
  readonly cluster: ClusterStore
  /** Whether wake-ups reach other processes. @default false */
  readonly remoteWakeUps?: boolean | undefined
  /** Epoch milliseconds. @default Date.now */
  readonly now?: (() => number) | undefined
  readonly log?: ((event: DispatchEvent) => void) | undefined
  /** Counts tasks as jobs of the queue of tasks; the kind is the service. */
  readonly activity?: Pick<JobActivity, 'added' | 'started' | 'ended'> | undefined
  /** Called with how long a task waited for its first node. */
  readonly placed?: ((waitedMs: number) => void) | undefined
  /** Called with how long each command waited and held the registry. */
  readonly observe?: ((kind: CommandKind, waitMs: number, holdMs: number, who: string) => void) | undefined
}

/** With more unwritten ends than this, the server stops reading from sockets. */
const maxUnwritten = 20_000
/** How often to check for expired leases, and for claims that the registry does not know. */
const checkEveryMs = 1_000
/** How long a submit of this process counts as waiting here until it is claimed; another server may claim it. */
const submittedForMs = { alone: 10_000, shared: 1_000 } as const
/** After this server yields tasks of `anyKind`, it leaves them to other servers for this time. */
const anyRestMs = 1_000
const maxTimerMs = 2 ** 31 - 1
/** A stop takes less than 5 s beyond its grace: the running claim, the last writes, and the loops. */
const claimWithinMs = 1_500
const writeWithinMs = 2_000
const haltWithinMs = 1_000
const stopPollMs = 20
const repairsPerStep = 5_000
/** A task must have run for this time before it is reported to other servers. */
const reportAfterMs = 500

/** The engine of a dispatcher. Its parts take the members that they need. */
export class Engine {
  readonly parts: EngineParts
  readonly options: ResolvedDispatchOptions
  readonly jobs: JobStore
  readonly logs: EngineParts['logs']
  readonly notifier: JobsNotifier
  readonly now: () => number
  readonly monotonicMs = (): number => performance.now()
  readonly registry: Registry
  readonly mailbox: Mailbox
  readonly claims: Claims = new Claims()
  readonly feed: TaskFeed = new TaskFeed()
  readonly tally: Tally = new Tally()
  readonly completer: TaskCompleter
  readonly lookups: Lookups
  readonly progress: ProgressWriter
  readonly sharing: Sharing
  readonly connections: NodeConnections
  readonly fetcher: TaskFetcher
  readonly leaseRenewer: LeaseRenewer
  /**
   * Submits of this process that it has not claimed yet. They count as waiting, but the registry does not know them.
   */
  readonly #submitted = new Map<string, number>()
  #tick: NodeJS.Timeout | undefined
  #tickAt = Number.POSITIVE_INFINITY
  #intervals: NodeJS.Timeout[] = []
  #repairRound: IterableIterator<Claim> | undefined
  /** Claims that the registry did not know in the last round. */
  readonly #strays = new Set<Claim>()
  #isStarted = false

  constructor(parts: EngineParts, options: ResolvedDispatchOptions) {
    const { jobs, logs, notifier, now = forwardClock(), observe } = parts
    const { monotonicMs, onError, post } = this
    this.parts = parts
    this.options = options
    this.jobs = jobs
    this.logs = logs
    this.notifier = notifier
    this.now = now
    this.registry = new Registry(options.policy)
    this.completer = new TaskCompleter(jobs, onError)
    this.lookups = new Lookups(jobs, onError)
    this.progress = new ProgressWriter(this)
    const effects = new EffectRunner(this)
    this.mailbox = new Mailbox(
      {
        apply: (command, at) => this.registry.apply(command, at),
        run: (list, command) => effects.run(list, command),
        now,
        monotonicMs,
        defer: setImmediate,
        ...(observe === undefined ? {} : { observe }),
        onError: (error, { kind }) => this.log({ name: 'command.failed', kind, error }),
      },
      options.mailbox,
    )
    this.sharing = new Sharing(this)
    const { ownNodes, settings } = this.sharing
    const isFull = () =>
      this.completer.size > maxUnwritten ||
      this.completer.bytes > options.maxHeldBytes ||
      this.mailbox.depth().results > options.mailbox.maxResults / 2
    this.connections = new NodeConnections({
      ...{ post, monotonicMs, now, isFull, ownNodes, settings, log: this.log },
      ...{ heartbeatMs: options.heartbeatMs, policy: options },
    })
    this.fetcher = new TaskFetcher(this)
    this.leaseRenewer = new LeaseRenewer(this)
  }

  readonly post = (command: Command): boolean => this.mailbox.post(command)

  /** A listener that throws does not stop the dispatcher. */
  readonly log = (event: DispatchEvent): void => {
    try {
      this.parts.log?.(event)
    } catch {
      // The error of a listener cannot be reported anywhere else.
    }
  }

  readonly onError = (error: unknown): void => this.log({ name: 'store.trouble', error })

  get isStarted(): boolean {
    return this.#isStarted
  }

  start(): void {
    if (this.#isStarted) return
    this.#isStarted = true
    const { rebuildMs } = this.options
    this.connections.open()
    this.leaseRenewer.start()
    // Claims depend on the list of servers, and placing depends on the settings of operators: both must be loaded
    // first.
    const begun = this.sharing.start().then(() => this.fetcher.start())
    begun.catch(this.onError)
    this.#intervals = [
      setInterval(() => this.connections.sweep(), sweepMs),
      setInterval(() => this.#checkExpired(), checkEveryMs),
    ]
    if (rebuildMs > 0) {
      this.#intervals.push(setInterval(() => this.mailbox.post({ kind: 'rebuild' }), rebuildMs))
    }
  }

  /** Counts a submit as waiting until this process has claimed it. */
  countSubmit(taskId: string): void {
    if (this.#isStarted) this.#submitted.set(taskId, performance.now())
  }

  /** Uncounts a submit that failed. */
  uncountSubmit(taskId: string): void {
    this.#submitted.delete(taskId)
  }

  get submittedCount(): number {
    return this.#submitted.size
  }

  /** Drops a claim that this process lost. */
  lose(claim: Claim): void {
    if (!this.claims.drop(claim)) return
    this.tally.lost += 1
    this.log({ name: 'task.lost', taskId: claim.jobId, attempt: claim.attempt })
    this.mailbox.post({ kind: 'forget', taskId: claim.jobId, attempt: claim.attempt })
    this.fetcher.wake()
  }

  /** Called when this process claimed a task. */
  claimed(task: TaskSpec): void {
    this.#submitted.delete(task.taskId)
    this.sharing.demands.learn(task)
  }

  /** Called when the end of a claim was written. */
  claimEnded(): void {
    this.fetcher.capacityChanged()
    this.connections.resumeReading()
  }

  /** Called when a job may be claimed again after `afterMs`. */
  requeued(afterMs: number): void {
    this.fetcher.wake(afterMs)
    if (afterMs <= 0) this.#wakeOthers()
  }

  /** Hands a claim back for another server. */
  yield(claim: Claim, done: () => void): void {
    if (claim.kind === anyKind) this.sharing.kinds.rest(anyKind, anyRestMs)
    this.handBack(claim, done)
  }

  /** Hands a claim back without spending an attempt; the next claim still has a higher attempt. */
  handBack(claim: Claim, done: () => void = () => undefined): void {
    const { spent, moveCount, shunned } = claim
    const isNew = spent === 0 && moveCount === 0
    const error = isNew ? null : JSON.stringify({ message: 'Handed back.', spent, moveCount, shunned })
    const ending = { state: 'ready', result: null, error, handBackCount: claim.handBackCount + 1 } as const
    this.completer.write(claim, ending, () => {
      this.claims.drop(claim)
      done()
      this.fetcher.capacityChanged()
      this.#wakeOthers()
    })
  }

  /** Stops claiming, lets running tasks end within the grace, hands the others back, and ends all loops. */
  async stop(graceMs: number): Promise<void> {
    const until = performance.now() + graceMs
    await this.fetcher.stop(Math.max(claimWithinMs, graceMs))
    void this.sharing.leave()
    while (this.claims.size > 0 && performance.now() < until) {
      for (const claim of this.claims.values()) {
        const status = this.registry.task(claim.jobId)?.status
        // Waiting tasks are handed back at once, before they could be assigned.
        if (status === undefined || status === 'waiting') this.#giveUp(claim)
      }
      await sleep(stopPollMs)
    }
    for (const claim of this.claims.values()) this.#giveUp(claim)
    // The registry needs a turn to send the frames.
    await sleep(stopPollMs)
    await inTime(writeWithinMs, () => this.completer.idle()).catch(() => undefined)
    await this.#halt(haltWithinMs)
  }

  #giveUp(claim: Claim): void {
    if (claim.isEnding) return
    this.mailbox.post({ kind: 'forget', taskId: claim.jobId })
    this.handBack(claim)
  }

  async #halt(withinMs: number): Promise<void> {
    for (const interval of this.#intervals) clearInterval(interval)
    clearTimeout(this.#tick)
    this.lookups.stop()
    this.progress.stop()
    this.connections.closeAll()
    this.mailbox.close()
    await Promise.all([this.leaseRenewer.stop(withinMs), this.sharing.stop(withinMs)])
  }

  /** Wakes other servers, because a job is ready to claim. */
  #wakeOthers(): void {
    if (this.sharing.servers.others.length > 0) this.notifier.wake(queueTopic(dispatchQueue))
  }

  /** Posts a tick at that instant, unless an earlier one is scheduled. */
  armTimer(at: number): void {
    if (at >= this.#tickAt) return
    clearTimeout(this.#tick)
    this.#tickAt = at
    const inMs = Math.min(maxTimerMs, Math.max(1, Math.ceil(at - this.now())))
    this.#tick = setTimeout(() => {
      this.#tickAt = Number.POSITIVE_INFINITY
      this.mailbox.post({ kind: 'tick' })
    }, inMs)
  }

  #checkExpired(): void {
    this.leaseRenewer.checkExpired()
    this.#repair()
    const now = performance.now()
    const forMs = submittedForMs[this.sharing.servers.others.length > 0 ? 'shared' : 'alone']
    for (const [taskId, at] of this.#submitted) {
      if (now - at < forMs) break
      this.#submitted.delete(taskId)
    }
  }

  /**
   * A safety net: submits a claimed task again if two rounds in a row find that the registry does not know it. Each
   * call checks a part of the claims. It also reports running tasks to other servers.
   */
  #repair(): void {
    const isShared = this.sharing.servers.others.length > 0
    if (this.#repairRound === undefined) {
      this.#repairRound = this.claims.values()
      for (const claim of this.#strays) if (this.claims.get(claim.jobId) !== claim) this.#strays.delete(claim)
    }
    for (let left = repairsPerStep; left > 0; left--) {
      const { done, value: claim } = this.#repairRound.next()
      if (done) {
        this.#repairRound = undefined
        return
      }
      if (isShared && !claim.isEnding) this.#reportIfRunning(claim)
      const isStray = !claim.isEnding && !this.registry.has(claim.jobId)
      if (isStray && this.#strays.has(claim)) this.mailbox.post({ kind: 'submit', task: claim.spec })
      else if (isStray) this.#strays.add(claim)
      else this.#strays.delete(claim)
    }
  }

  /** Reports a running task to other servers, unless it has just begun. */
  #reportIfRunning(claim: Claim): void {
    const view = this.registry.task(claim.jobId)
    if (view?.status !== 'running' || view.nodeId === null || this.now() - view.since < reportAfterMs) return
    this.progress.reportRunning(claim, view.nodeId)
  }
}

/**
 * A time of day that only goes forward from the start of the process, so that setting the clock changes no deadline.
 */
function forwardClock(): () => number {
  const origin = Date.now() - performance.now()
  return () => Math.floor(origin + performance.now())
}
