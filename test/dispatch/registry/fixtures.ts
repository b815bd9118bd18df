/** Small words for stories about the registry. */
import assert from 'node:assert/strict'
import {
  type Command,
  type Effect,
  type EffectKind,
  type Labels,
  Registry,
  type RegistryPolicy,
  type ServiceOffer,
  type TaskSpec,
} from '../../../src/dispatch/index.ts'

type Of<Kind extends EffectKind> = Extract<Effect, { kind: Kind }>

interface HelloParts {
  readonly instanceId?: string
  readonly running?: readonly string[] | null
}

interface BeatParts {
  readonly cpu?: number
  readonly memory?: number | null
  readonly running?: readonly string[] | null
  readonly countedSeq?: number | null
  readonly epoch?: number
}

/** A registry with a clock that the test moves, and its last effects. */
export class Stage {
  readonly registry: Registry
  now = 1_000
  last: readonly Effect[] = []

  constructor(policy: Partial<RegistryPolicy> = {}) {
    this.registry = new Registry(policy)
  }

  /** Applies a command, and the slices that it leads to. */
  do(command: Command): readonly Effect[] {
    const effects = [...this.registry.apply(command, this.now)]
    for (let more = effects; more.some(({ kind }) => kind === 'moreWork'); ) {
      more = [...this.registry.apply({ kind: 'rebuildSlice' }, this.now)]
      effects.push(...more)
    }
    this.last = effects
    return effects
  }

  /** Lets time pass and the timer fire. */
  after(ms: number): readonly Effect[] {
    this.now += ms
    return this.do({ kind: 'tick' })
  }

  node(
    nodeId: string,
    services: Record<string, number> | readonly ServiceOffer[],
    labels: Labels = {},
  ): number {
    const effects = this.hello(nodeId, services, labels)
    return only(effects, 'welcome').epoch
  }

  hello(
    nodeId: string,
    services: Record<string, number> | readonly ServiceOffer[],
    labels: Labels = {},
    { instanceId = `${nodeId}-1`, running = null }: HelloParts = {},
  ): readonly Effect[] {
    const offers = Array.isArray(services)
      ? (services as readonly ServiceOffer[])
      : Object.entries(services as Record<string, number>).map(([name, slots]) => ({ name, slots, tags: {} }))
    return this.do({
      kind: 'nodeHello',
      nodeId,
      instanceId,
      epoch: 1,
      services: offers,
      labels,
      running,
    })
  }

  submit(taskId: string, parts: Partial<TaskSpec> = {}): readonly Effect[] {
    return this.do({ kind: 'submit', task: this.spec(taskId, parts) })
  }

  spec(taskId: string, parts: Partial<TaskSpec> = {}): TaskSpec {
    const service = parts.service ?? 'asr'
    return {
      taskId,
      attempt: 1,
      maxAttempts: 5,
      service,
      kind: service,
      uses: { [service]: 1 },
      requires: [],
      prefers: [],
      priority: 0,
      tenant: 'house',
      session: null,
      submittedAt: this.now,
      deadlineAt: null,
      idleMs: null,
      retryable: true,
      ...parts,
    }
  }

  result(nodeId: string, taskId: string, attempt = 1, epoch = 1): readonly Effect[] {
    return this.do({ kind: 'result', nodeId, epoch, taskId, attempt, output: `${taskId} done` })
  }

  beat(
    nodeId: string,
    { cpu = 0, memory = null, running = null, countedSeq = null, epoch = 1 }: BeatParts = {},
  ): readonly Effect[] {
    return this.do({
      kind: 'heartbeat',
      nodeId,
      epoch,
      load: { cpu, gpu: null, memory },
      running,
      countedSeq,
    })
  }

  used(nodeId: string, service = 'asr'): number {
    return this.registry.node(nodeId)!.services.find(({ name }) => name === service)!.used
  }
}

/** The effects of one kind. */
export function all<Kind extends EffectKind>(effects: readonly Effect[], kind: Kind): readonly Of<Kind>[] {
  return effects.filter((effect): effect is Of<Kind> => effect.kind === kind)
}

/** The one effect of a kind. */
export function only<Kind extends EffectKind>(effects: readonly Effect[], kind: Kind): Of<Kind> {
  const found = all(effects, kind)
  assert.equal(found.length, 1, `one ${kind} among ${effects.map((effect) => effect.kind).join(', ')}`)
  return found[0]!
}

/** No effect of a kind. */
export function none(effects: readonly Effect[], kind: EffectKind): void {
  assert.deepEqual(all(effects, kind), [])
}

/** The task ids that were assigned, in order. */
export function assigned(effects: readonly Effect[]): readonly string[] {
  return all(effects, 'assign').map(({ taskId }) => taskId)
}
