/**
 * The registry at work: its mailbox, the claims it places, the nodes it speaks to, the servers it shares them with, and
 * the clock that wakes it.
 *
 *   store ─claims─▶ intake ─▶ mailbox ─▶ registry ─▶ effects ─▶ ends ─▶ store
 *   nodes ─frames─▶ connections ───────▲                       └──────▶ connections ─▶ nodes
 */
import { type JobRecord, type JobStore, type JobsNotifier, type LogStore, queueTopic } from '../jobs/index.ts'
import type { FleetStore } from './cluster/fleet-store.ts'
import { Sharing } from './cluster/server-sharing.ts'
import { NodeConnections, sweepMs } from './connections/node-connections.ts'
import type { ResolvedDispatchOptions } from './dispatch-options.ts'
import { Tally } from './dispatch-tally.ts'
import { type DispatchEvent, EffectRunner } from './effect-runner.ts'
import { Snapshot } from './fleet-snapshot.ts'
import { anyKind } from './matching/demand-kind.ts'
import type { Command, CommandKind } from './registry/command.ts'
import { Mailbox } from './registry/mailbox.ts'
import { Registry } from './registry/registry.ts'
import { type Claim, Claims } from './tasks/claims.ts'
import { HandedBack } from './tasks/handed-back.ts'
import { Keeper } from './tasks/lease-renewer.ts'
import { ProgressWriter } from './tasks/progress-writer.ts'
import { Ends } from './tasks/task-completer.ts'
import { decodeTask, dispatchQueue, eventOf } from './tasks/task-document.ts'
import { TaskFeed } from './tasks/task-feed.ts'
import { Intake } from './tasks/task-fetcher.ts'
import { Lookups } from './tasks/task-lookups.ts'

/** What an engine is made of. */
export interface EngineParts {
  readonly jobs: JobStore
  /** Where other servers read how far tasks are. */
  readonly logs: Pick<LogStore, 'add' | 'progress'>
  readonly notifier: JobsNotifier
  /** Where servers that share the nodes tell each other of them. */
  readonly fleet: FleetStore
  /** Whether wake-ups reach other processes. @default false */
  readonly remoteWakeUps?: boolean | undefined
  /** Epoch milliseconds. @default Date.now */
  readonly now?: (() => number) | undefined
  readonly log?: ((event: DispatchEvent) => void) | undefined
  /** Told how long a task waited until it was first given to a node. */
  readonly placed?: ((waitedMs: number) => void) | undefined
  /** Told how long each command waited and held the registry. */
  readonly observe?: ((kind: CommandKind, waitMs: number, holdMs: number, who: string) => void) | undefined
}

/** Ends not written, beyond which sockets are not read. */
const maxUnwritten = 20_000
/** Handed-back tasks and lapsed leases are looked after this often. */
const mindEveryMs = 1_000
/** How long an own submit counts as waiting before this process claims it; another may have. */
const submittedForMs = { alone: 10_000, shared: 1_000 } as const
/** A kind for anybody that was yielded is left to others for so long. */
const anyRestMs = 1_000
const maxTimerMs = 2 ** 31 - 1

/** A dispatcher's inner works. */
export class Engine {
  readonly registry: Registry
  readonly mailbox: Mailbox
  readonly claims: Claims = new Claims()
  readonly feed: TaskFeed = new TaskFeed()
  readonly snapshot: Snapshot = new Snapshot()
  readonly tally: Tally = new Tally()
  readonly handedBack: HandedBack = new HandedBack()
  readonly ends: Ends
  readonly connections: NodeConnections
  readonly intake: Intake
  readonly keeper: Keeper
  readonly sharing: Sharing
  readonly now: () => number
  readonly log: (event: DispatchEvent) => void
  readonly #jobs: JobStore
  readonly #notifier: JobsNotifier
  readonly #options: ResolvedDispatchOptions
  readonly #lookups: Lookups
  readonly #progress: ProgressWriter
  /** Submits of this process that it has not claimed yet: they wait, though the registry does not know them. */
  readonly #submitted = new Map<string, number>()
  #tick: NodeJS.Timeout | undefined
  #tickAt = Number.POSITIVE_INFINITY
  #intervals: NodeJS.Timeout[] = []
  #isMinding = false
  #round: IterableIterator<Claim> | undefined
  readonly #strays = new Set<Claim>()
  #isStarted = false

  constructor(parts: EngineParts, options: ResolvedDispatchOptions) {
    const { jobs, logs, notifier, now = forwardClock(), observe, fleet, remoteWakeUps = false } = parts
    const { placed = () => undefined } = parts
    const log = quiet(parts.log)
    const monotonicMs = () => performance.now()
    const onTrouble = (error: unknown) => log({ name: 'store.trouble', error })
    const post = (command: Command) => this.mailbox.post(command)
    this.#jobs = jobs
    this.#notifier = notifier
    this.#options = options
    this.now = now
    this.log = log
    this.registry = new Registry(options.policy)
    this.ends = new Ends(jobs, onTrouble)
    this.#lookups = new Lookups(jobs, onTrouble)
    this.#progress = new ProgressWriter({ logs, claims: this.claims, monotonicMs, onTrouble })
    const { heartbeatMs, leaseMs } = options
    const isFull = () =>
      this.ends.size > maxUnwritten ||
      this.ends.bytes > options.maxHeldBytes ||
      this.mailbox.depth().results > (options.mailbox.maxResults ?? 100_000) / 2
    const { registry, claims, ends, feed, snapshot, tally, handedBack } = this
    this.mailbox = new Mailbox(
      {
        apply: (command, at) => registry.apply(command, at),
        run: (list, command) => effects.run(list, command),
        now,
        monotonicMs,
        defer: setImmediate,
        ...(observe === undefined ? {} : { observe }),
        onError: (error, { kind }) => log({ name: 'command.failed', kind, error }),
      },
      options.mailbox,
    )
    this.sharing = new Sharing({
      ...{ store: fleet, notifier, remoteWakeUps, options, registry, mailbox: this.mailbox, snapshot },
      ...{ now, monotonicMs, log, onTrouble },
      dismiss: (nodeId, epoch) => this.connections.close(nodeId, epoch, 4408, 'connected to another server'),
      mendNodes: () => this.connections.mend(),
      wake: () => this.intake.wake(),
      hearWishes: () => this.keeper.hearWishes(),
    })
    const { ownNodes, settings, kinds, demands } = this.sharing
    this.connections = new NodeConnections({
      ...{ post, monotonicMs, heartbeatMs, isFull, now, ownNodes, settings, policy: options, log },
    })
    const { connections } = this
    const effects = new EffectRunner({
      ...{ registry, claims, ends, connections, feed, snapshot, tally, post, now, monotonicMs, log, placed },
      ...{ lookups: this.#lookups, progress: this.#progress },
      armTimer: (at) => this.#armTimer(at),
      handedBack: (taskId, afterMs) => {
        // It may be claimed again before this process hears that it was handed back.
        if (claims.get(taskId) !== undefined) return
        handedBack.add(taskId, monotonicMs() + afterMs)
        this.intake.wake(afterMs)
        if (afterMs <= 0) this.#wakeOthers()
      },
      handBack: (claim, told) => {
        if (claim.kind === anyKind) this.sharing.kinds.rest(anyKind, anyRestMs)
        this.handBack(claim, told)
      },
      freed: () => {
        this.intake.freed()
        connections.relieve()
      },
    })
    this.intake = new Intake({
      ...{ store: jobs, notifier, claims, handedBack, options, post, now, monotonicMs, onTrouble },
      backlog: () => ends.size,
      waiting: () => this.mailbox.depth().dispatches,
      asks: () => kinds.asks(),
      claimed: (task) => {
        this.#submitted.delete(task.taskId)
        demands.learn(task)
      },
    })
    this.keeper = new Keeper({
      ...{ store: jobs, notifier, claims, leaseMs, monotonicMs, onTrouble },
      lose: (claim) => this.lose(claim),
      cancel: ({ jobId }) => post({ kind: 'cancel', taskId: jobId, reason: null }),
    })
  }

  get isStarted(): boolean {
    return this.#isStarted
  }

  start(): void {
    if (this.#isStarted) return
    this.#isStarted = true
    const { rebuildMs } = this.#options
    this.connections.open()
    this.keeper.start()
    // What is claimed depends on who else is there, and where it may go on what operators decided.
    const begun = this.sharing.start().then(() => this.intake.start())
    begun.catch((error: unknown) => this.log({ name: 'store.trouble', error }))
    this.#intervals = [
      setInterval(() => this.connections.sweep(), sweepMs),
      setInterval(() => void this.#mind(), mindEveryMs),
    ]
    if (rebuildMs > 0) {
      this.#intervals.push(setInterval(() => this.mailbox.post({ kind: 'rebuild' }), rebuildMs))
    }
  }

  /** Counts a submit as waiting until this process has claimed it. */
  expect(taskId: string): void {
    if (this.#isStarted) this.#submitted.set(taskId, performance.now())
  }

  /** It came to nothing. */
  unexpect(taskId: string): void {
    this.#submitted.delete(taskId)
  }

  get expected(): number {
    return this.#submitted.size
  }

  /** The claim is no longer this process's. */
  lose(claim: Claim): void {
    if (!this.claims.drop(claim)) return
    this.tally.lost += 1
    this.log({ name: 'task.lost', taskId: claim.jobId, attempt: claim.attempt })
    this.mailbox.post({ kind: 'forget', taskId: claim.jobId, attempt: claim.attempt })
    this.intake.wake()
  }

  /** Hands a claim back without spending an attempt; the next claim's attempt is higher all the same. */
  handBack(claim: Claim, told: () => void = () => undefined): void {
    const { spent, moveCount } = claim
    const isNew = spent === 0 && moveCount === 0
    const error = isNew ? null : JSON.stringify({ message: 'Handed back.', spent, moveCount })
    const ending = { state: 'ready', result: null, error, handBackCount: claim.handBackCount + 1 } as const
    this.ends.write(claim, ending, () => {
      this.claims.drop(claim)
      told()
      this.intake.freed()
      this.#wakeOthers()
    })
  }

  /** Ends everything that runs by itself. Claims and ends are the caller's to look after first. */
  async halt(withinMs: number): Promise<void> {
    for (const interval of this.#intervals) clearInterval(interval)
    clearTimeout(this.#tick)
    this.#lookups.stop()
    this.#progress.stop()
    this.connections.shut()
    this.mailbox.close()
    await Promise.all([this.keeper.stop(withinMs), this.sharing.stop(withinMs)])
  }

  /** Something is there to claim, perhaps for another server. */
  #wakeOthers(): void {
    if (this.sharing.servers.others.length > 0) this.#notifier.wake(queueTopic(dispatchQueue))
  }

  #armTimer(at: number): void {
    if (at >= this.#tickAt) return
    clearTimeout(this.#tick)
    this.#tickAt = at
    const inMs = Math.min(maxTimerMs, Math.max(1, Math.ceil(at - this.now())))
    this.#tick = setTimeout(() => {
      this.#tickAt = Number.POSITIVE_INFINITY
      this.mailbox.post({ kind: 'tick' })
    }, inMs)
  }

  async #mind(): Promise<void> {
    this.keeper.mind()
    this.#repair()
    const now = performance.now()
    const forMs = submittedForMs[this.sharing.servers.others.length > 0 ? 'shared' : 'alone']
    for (const [taskId, at] of this.#submitted) {
      if (now - at < forMs) break
      this.#submitted.delete(taskId)
    }
    if (this.#isMinding || this.handedBack.size === 0) return
    this.#isMinding = true
    try {
      await this.handedBack.check(this.#jobs, now, (taskId, record) => this.forget(taskId, record))
    } catch (error) {
      this.log({ name: 'store.trouble', error })
    } finally {
      this.#isMinding = false
    }
  }

  /**
   * A net under everything else: a task that is held here and that the registry does not know, seen so twice, is
   * submitted again. A part of the claims at a time. By the way, other servers are told what runs here.
   */
  #repair(): void {
    const isShared = this.sharing.servers.others.length > 0
    if (this.#round === undefined) {
      this.#round = this.claims.values()
      for (const claim of this.#strays) if (this.claims.get(claim.jobId) !== claim) this.#strays.delete(claim)
    }
    for (let left = repairsPerStep; left > 0; left--) {
      const { done, value: claim } = this.#round.next()
      if (done) {
        this.#round = undefined
        return
      }
      if (isShared && !claim.isEnding) this.#tellIfRuns(claim)
      const isStray = !claim.isEnding && !this.registry.has(claim.jobId)
      if (isStray && this.#strays.has(claim))
        this.mailbox.post({ kind: 'submit', task: claim.spec, admitted: true })
      else if (isStray) this.#strays.add(claim)
      else this.#strays.delete(claim)
    }
  }

  /** What is over soon need not be known elsewhere. */
  #tellIfRuns(claim: Claim): void {
    const view = this.registry.task(claim.jobId)
    if (view?.status !== 'running' || view.nodeId === null || this.now() - view.since < tellAfterMs) return
    this.#progress.runs(claim, view.nodeId)
  }

  /** A task that was handed back went elsewhere, or ended in the store. */
  forget(taskId: string, record: JobRecord | undefined): void {
    this.handedBack.delete(taskId)
    const isFinished = record !== undefined && record.finishedAt !== null
    // This process claimed it again during the lookup.
    if (this.claims.get(taskId) !== undefined && !isFinished) return
    this.mailbox.post({ kind: 'forget', taskId })
    if (isFinished) {
      this.feed.publish(eventOf(decodeTask(record), this.now()))
    }
  }
}

const repairsPerStep = 5_000
/** So long a task has run before it is written down for other servers. */
const tellAfterMs = 500

/** The time of day as it was at the start, and from then on forward only: a clock that is set changes no deadline. */
function forwardClock(): () => number {
  const origin = Date.now() - performance.now()
  return () => Math.floor(origin + performance.now())
}

/** A listener that throws does not stop the dispatcher. */
function quiet(log: EngineParts['log']): (event: DispatchEvent) => void {
  return (event) => {
    try {
      log?.(event)
    } catch {
      // It was told.
    }
  }
}
