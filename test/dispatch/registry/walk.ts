/** A random walk: nodes, tasks, operators and time do what they like, seeded; the model checks every step. */
import assert from 'node:assert/strict'
import {
  type Command,
  type Effect,
  Registry,
  type RegistryPolicy,
  type ServiceOffer,
  type TaskSpec,
  type Term,
} from '../../../src/dispatch/index.ts'
import { EffectDigest, type LogEntry } from './event-log.ts'
import { keyOf, Model, type ModelNode } from './model.ts'

const names = ['asr', 'nmt', 'tts'] as const
const languages = ['zh', 'en', 'de'] as const
const zones = ['north', 'south'] as const

export class Walk {
  readonly registry: Registry
  readonly model: Model = new Model()
  readonly log: LogEntry[] = []
  /** Submits that kept to the bound on waiting tasks. */
  refusedCount = 0
  readonly digest: EffectDigest = new EffectDigest()
  now = 1_000
  #state: number
  #taskNumber = 0
  #workWaits = false
  /** When the registry asked for a tick. */
  #armedAt: number = Number.POSITIVE_INFINITY
  #beats: Extract<Command, { kind: 'heartbeat' }>[] = []
  readonly #again: TaskSpec[] = []
  readonly #cancels: { nodeId: string; epoch: number; taskId: string; attempt: number }[] = []
  readonly #lookups: Extract<Effect, { kind: 'unknownTask' }>[] = []
  #foreignNumber = 0
  #handedBack = 0

  constructor(seed: number, policy: Partial<RegistryPolicy> = {}) {
    this.#state = seed
    this.registry = new Registry({ seed, ...policy })
  }

  random(): number {
    this.#state = (Math.imul(this.#state, 1_664_525) + 1_013_904_223) | 0
    return ((this.#state >>> 8) & 0xffffff) / 0x1000000
  }

  pick<T>(list: readonly T[]): T {
    return list[Math.floor(this.random() * list.length)]!
  }

  do(command: Command): readonly Effect[] {
    this.log.push({ command, now: this.now })
    this.model.heed(command, this.now)
    const effects = this.registry.apply(command, this.now)
    this.digest.add(effects)
    // Rules count from the swap on, and the swap is reported before its consequences.
    if (effects.some((effect) => effect.kind === 'event' && effect.event.name === 'pools.rebuilt')) {
      this.model.rules = new Map(
        this.registry.pools().flatMap(({ name, requires }) => (name === null ? [] : [[name, requires]])),
      )
    }
    for (const effect of effects) {
      this.model.see(effect, command)
      this.#live(effect)
    }
    return effects
  }

  /** What the outside does with an effect. */
  #live(effect: Effect): void {
    switch (effect.kind) {
      case 'armTimer':
        this.#armedAt = effect.at
        return
      case 'moreWork':
        this.#workWaits = true
        return
      case 'assign': {
        const node = this.model.nodes.get(effect.nodeId)!
        // Some frames are lost with their connection.
        if (node.epoch !== effect.epoch || this.random() < 0.02) return
        node.received = effect.seq
        node.running.set(effect.taskId, effect.attempt)
        return
      }
      case 'cancelFrame':
        this.#cancels.push(effect)
        return
      case 'stale': {
        const node = this.model.nodes.get(effect.nodeId)
        if (node?.epoch !== effect.epoch) return
        if (effect.attempt === 0 || node.running.get(effect.taskId) === effect.attempt)
          node.running.delete(effect.taskId)
        return
      }
      case 'requeue': {
        const { spec } = this.model.tasks.get(effect.taskId)!
        this.#again.push({ ...spec, attempt: effect.attempt + 1, shunned: effect.nodeId })
        return
      }
      case 'handBack': {
        this.#handedBack += 1
        const { spec } = this.model.tasks.get(effect.taskId)!
        this.#again.push({ ...spec, attempt: effect.attempt + 1, maxAttempts: spec.maxAttempts + 1 })
        return
      }
      case 'unknownTask':
        if (effect.attempt === 0) this.#lookups.push(effect)
        return
      default:
    }
  }

  step(): void {
    this.now += Math.floor(this.random() * 20)
    const roll = this.random()
    if (this.model.nodes.size < 3 || roll < 0.03) this.hello()
    else if (roll < 0.3) this.submit()
    else if (roll < 0.62) this.work()
    else if (roll < 0.72) this.beat()
    else if (roll < 0.76) this.stopCancelled()
    else if (roll < 0.8) this.resubmit()
    else if (roll < 0.83) this.cancel()
    else if (roll < 0.86) this.trouble()
    else if (roll < 0.89) this.administer()
    else if (roll < 0.91) this.lie()
    else if (roll < 0.96) this.tick()
    else if (this.#workWaits) this.slice()
    if (this.random() < 0.4) this.answerLookup()
    if (this.random() < 0.01) this.yieldSome()
    if (this.random() < 0.002) this.now += 12_000
  }

  slice(): void {
    this.#workWaits = false
    this.do({ kind: 'rebuildSlice' })
  }

  /** Finishes all background work. */
  calm(): void {
    for (let turn = 0; turn < 10_000 && !this.#isCalm(); turn += 1) {
      if (this.#workWaits) this.slice()
      if (this.#armedAt <= this.now) this.tick()
    }
    assert.ok(this.#isCalm(), 'work comes to an end')
  }

  tick(): void {
    this.#armedAt = Number.POSITIVE_INFINITY
    this.do({ kind: 'tick' })
  }

  #isCalm(): boolean {
    return !this.#workWaits && this.#armedAt > this.now
  }

  services(): readonly ServiceOffer[] {
    // Most nodes are alike, so that pools have several members.
    if (this.random() < 0.6) return names.map((name) => ({ name, slots: 2, tags: { language: languages } }))
    return names
      .filter(() => this.random() < 0.7)
      .map((name) => ({
        name,
        slots: Math.floor(this.random() * 4),
        tags: { language: languages.filter(() => this.random() < 0.6) },
      }))
  }

  hello(): void {
    const nodeId = `n${Math.floor(this.random() * 12)}`
    const known = this.model.nodes.get(nodeId)
    this.#beats = this.#beats.filter((beat) => beat.nodeId !== nodeId)
    const resumes = known !== undefined && this.random() < 0.6
    const instanceId = resumes ? known.instanceId : `i${Math.floor(this.random() * 1e9)}`
    this.do({
      kind: 'nodeHello',
      nodeId,
      instanceId,
      epoch: 1,
      services: resumes && this.random() < 0.7 ? known.services : this.services(),
      labels: { zone: this.pick(zones), memory: this.pick([0, 16]) },
      running: this.running(resumes ? known : undefined),
    })
  }

  /** What a node lists at hello: what it ran here, and now and then what it ran elsewhere. */
  running(known: ModelNode | undefined): readonly string[] {
    const listed = [...(known?.running.keys() ?? [])]
    for (let more = this.random() < 0.3 ? 1 + Math.floor(this.random() * 3) : 0; more > 0; more -= 1) {
      this.#foreignNumber += 1
      listed.push(`x${this.#foreignNumber}`)
      known?.running.set(`x${this.#foreignNumber}`, 1)
    }
    return listed
  }

  spec(): TaskSpec {
    this.#taskNumber += 1
    const service = this.pick(names)
    const many = this.random() < 0.25
    const uses = many ? { asr: 1, nmt: 1, [service]: 1 + Math.floor(this.random() * 2) } : { [service]: 1 }
    const requires: Term[] = []
    if (this.random() < 0.4) requires.push({ service, where: { language: this.pick(languages) } })
    if (this.random() < 0.2) requires.push({ label: 'zone', in: [this.pick(zones)] })
    if (this.random() < 0.1) requires.push({ label: 'memory', gte: 8, lte: 16 })
    if (this.random() < 0.1)
      requires.push({ any: [{ service: 'tts' }, { not: { label: 'zone', in: ['north'] } }] })
    if (this.random() < 0.05) requires.push({ label: 'pool', in: ['big'] })
    return {
      taskId: `t${this.#taskNumber}`,
      attempt: 1,
      maxAttempts: 1 + Math.floor(this.random() * 4),
      service,
      kind: `${service}${JSON.stringify([uses, requires])}`,
      uses,
      requires,
      prefers: this.random() < 0.1 ? [{ label: 'zone', in: ['south'] }] : [],
      priority: Math.floor(this.random() * 10),
      tenant: this.pick(['a', 'b', 'c']),
      session: this.random() < 0.2 ? this.pick(['s1', 's2', 's3']) : null,
      submittedAt: this.now,
      deadlineAt: this.random() < 0.2 ? this.now + 500 + Math.floor(this.random() * 5_000) : null,
      idleMs: this.random() < 0.2 ? 2_000 : null,
      retryable: this.random() < 0.9,
    }
  }

  /** A durable task comes in whatever waits; a caller that asks first keeps to the bound. */
  submit(): void {
    const task = this.spec()
    if (this.random() < 0.5 || this.registry.admission(task.tenant) === null)
      this.do({ kind: 'submit', task })
    else this.refusedCount += 1
  }

  resubmit(): void {
    const spec = this.#again.shift()
    if (spec !== undefined) this.do({ kind: 'submit', task: spec })
  }

  live(): readonly ModelNode[] {
    return [...this.model.nodes.values()].filter(({ status }) => status !== 'gone')
  }

  /** A node says something about what it runs. */
  work(): void {
    const busy = this.live().filter(({ running }) => running.size > 0)
    if (busy.length === 0) return
    const node = this.pick(busy)
    const [taskId, attempt] = this.pick([...node.running])
    const of = { nodeId: node.nodeId, epoch: node.epoch, taskId, attempt }
    const roll = this.random()
    if (roll < 0.25) {
      this.do({ kind: 'accept', ...of })
      return
    }
    if (roll < 0.4) {
      this.do({ kind: 'progress', ...of, percent: 10, note: null })
      return
    }
    node.running.delete(taskId)
    if (roll < 0.8) this.do({ kind: 'result', ...of, output: taskId })
    else if (roll < 0.9) {
      const retryable = this.random() < 0.7
      this.do({ kind: 'fail', ...of, error: { code: 'oops', message: 'It broke.' }, retryable })
    } else {
      const reason = this.random() < 0.7 ? 'busy' : 'too odd'
      this.do({ kind: 'reject', ...of, reason, retryAfterMs: this.random() < 0.5 ? 300 : null })
    }
  }

  /** Heartbeats are made and delivered later, as from a lane that others overtake. */
  beat(): void {
    const nodes = this.live()
    if (nodes.length > 0) {
      const { nodeId, epoch, running, received } = this.pick(nodes)
      const load = { cpu: this.random(), gpu: null, memory: this.random() * 0.9 }
      this.#beats.push({
        kind: 'heartbeat',
        nodeId,
        epoch,
        load,
        running: [...running.keys()],
        countedSeq: received,
      })
    }
    if (this.#beats.length > 3 || this.random() < 0.5) {
      const beat = this.#beats.shift()
      if (beat !== undefined) this.do(beat)
    }
  }

  stopCancelled(): void {
    const frame = this.#cancels.shift()
    if (frame === undefined) return
    const { nodeId, epoch, taskId, attempt } = frame
    const node = this.model.nodes.get(nodeId)
    if (node?.epoch !== epoch || node.running.get(taskId) !== attempt) return
    node.running.delete(taskId)
    const error = { code: 'cancelled', message: 'It stopped.' }
    this.do({ kind: 'fail', nodeId, epoch, taskId, attempt, error, retryable: true })
  }

  cancel(): void {
    if (this.#taskNumber === 0) return
    const taskId = `t${1 + Math.floor(this.random() * this.#taskNumber)}`
    this.do({ kind: 'cancel', taskId, reason: null })
  }

  trouble(): void {
    const nodes = this.live()
    if (nodes.length === 0) return
    const { nodeId, epoch } = this.pick(nodes)
    this.#beats = this.#beats.filter((beat) => beat.nodeId !== nodeId)
    const roll = this.random()
    if (roll < 0.5) this.do({ kind: 'nodeSuspect', nodeId, epoch, reason: 'closed' })
    else if (roll < 0.85) this.do({ kind: 'nodeGone', nodeId, epoch, reason: 'silent' })
    else this.do({ kind: 'nodeBye', nodeId, epoch })
  }

  administer(): void {
    const nodes = this.live()
    if (nodes.length === 0) return
    const { nodeId, epoch } = this.pick(nodes)
    const on = this.random() < 0.4
    switch (Math.floor(this.random() * 6)) {
      case 0:
        this.do({ kind: 'drain', nodeId, on, deadlineAt: this.random() < 0.5 ? this.now + 1_000 : null })
        return
      case 1:
        this.do({ kind: 'cordon', nodeId, service: null, on })
        return
      case 2:
        this.do({ kind: 'cordon', nodeId, service: this.pick(names), on })
        return
      case 3:
        this.do({ kind: 'definePool', name: 'big', requires: [{ label: 'memory', gte: this.pick([8, 16]) }] })
        return
      case 4:
        this.do({ kind: 'rebuild' })
        return
      default:
        this.do({ kind: 'nodeUpdate', nodeId, epoch, services: this.services(), labels: null })
    }
  }

  /** Frames that must not count: old attempts, other nodes' tasks, unknown ones, old epochs. */
  lie(): void {
    const node = this.pick([...this.model.nodes.values()])
    const taskId = `t${1 + Math.floor(this.random() * (this.#taskNumber + 3))}`
    const task = this.model.tasks.get(taskId)
    const attempt = this.pick([0, 1, 2, task?.spec.attempt ?? 9])
    if (node.leases.has(keyOf(taskId, attempt))) return
    const epoch = this.pick([node.epoch, node.epoch - 1, node.epoch + 5])
    const effects = this.do({ kind: 'result', nodeId: node.nodeId, epoch, taskId, attempt, output: 'lie' })
    assert.ok(!effects.some(({ kind }) => kind === 'settled'), 'a lie ends nothing')
  }

  /** Another server has work for the tasks that wait here. */
  yieldSome(): void {
    const kinds = [...this.registry.waitingKinds()]
    if (kinds.length === 0) return
    const { kind } = this.pick(kinds)
    const count = 1 + Math.floor(this.random() * 12)
    const before = this.#handedBack
    this.do({ kind: 'yield', demand: kind, count })
    this.calm()
    const given = this.#handedBack - before
    assert.ok(given <= count, 'no more are given up than were asked for')
    const left = [...this.registry.waitingKinds()].find((each) => each.kind === kind)
    assert.ok(given === count || left === undefined, 'fewer are handed back only when none is left')
  }

  /** A lookup of what a node runs is answered; some answers never come. */
  answerLookup(): void {
    const question = this.#lookups.shift()
    if (question === undefined || this.random() < 0.15) return
    const { nodeId, epoch, taskId, attempt } = question
    const node = this.model.nodes.get(nodeId)
    // A node stops a task at once, or when it gets to it.
    if (node?.epoch === epoch && this.random() < 0.5) node.running.delete(taskId)
    const uses =
      this.random() < 0.3 ? null : { asr: 1, [this.pick(names)]: 1 + Math.floor(this.random() * 2) }
    this.do({ kind: 'orphan', nodeId, epoch, taskId, attempt, uses })
  }

  /** Ends everything: tasks are cancelled, nodes say that they stopped. */
  finish(): void {
    for (let round = 0; round < 20; round += 1) {
      this.calm()
      for (const spec of this.#again.splice(0)) this.do({ kind: 'submit', task: spec })
      for (const { taskId } of [...this.registry.tasks()]) this.do({ kind: 'cancel', taskId, reason: 'over' })
      for (let left = this.#cancels.length; left > 0; left -= 1) this.stopCancelled()
    }
    // What lost frames left behind is mended by heartbeats, and by time. What nodes ran for others has ended too.
    for (const { nodeId, epoch, running, seq, leases } of this.live()) {
      for (const taskId of running.keys())
        if (taskId.startsWith('x') || leases.has(keyOf(taskId, 0))) running.delete(taskId)
      this.do({ kind: 'heartbeat', nodeId, epoch, load: null, running: [...running.keys()], countedSeq: seq })
    }
    this.calm()
  }

  /** At rest no task waits that a node has free slots for. */
  checkNoTaskWaitsInVain(): void {
    for (const { taskId, status, spec } of this.registry.tasks()) {
      if (status !== 'waiting') continue
      for (const node of this.model.nodes.values()) {
        const view = this.registry.node(node.nodeId)
        if (view === undefined || view.heldFor !== null) continue
        assert.notEqual(
          this.model.refuse(node, spec),
          null,
          `task ${taskId} waits, but ${node.nodeId} has free slots`,
        )
      }
    }
  }
}
