/**
 * A seeded random walk over guards and windows: it takes the same steps on the memory model and on an engine. Their
 * answers and their visible state must agree after every step.
 *
 * The two have separate clocks, so nothing depends on an exact instant. A span is far from its end, or so short that
 * the walk waits until it is surely over before the next step.
 */
import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import type { GuardEnd, GuardRecord, GuardStanding, GuardStore } from '../../src/once/index.ts'
import { MemoryGuards } from '../../src/storage/memory/guards.ts'
import type { GuardsBackend } from './guards/opening.ts'
import { digest } from './guards/stage.ts'
import { Random } from './random.ts'
import { walkOn } from './walking.ts'

export interface GuardsWalkRequest {
  /** A fresh backend in a new namespace. */
  readonly open: () => Promise<GuardsBackend>
  readonly title: string
  readonly seed: number
  readonly steps: number
}

/**
 * Walks. Throws with the seed, the step and the last steps when model and engine differ. Returns the count of each
 * step.
 */
export async function runGuardsWalk({
  open,
  title,
  seed,
  steps,
}: GuardsWalkRequest): Promise<Readonly<Record<string, number>>> {
  await using engine = await open()
  assert.ok(engine.guards, `${title} keeps no guards`)
  const walk = new GuardsWalk(engine.guards, seed)
  await walkOn(walk, { title: title, seed, steps })
  return walk.counts
}

const farMs = 1_000_000_000
const shortMs = 25
/** Two short spans in a row, and the greatest difference of two clocks. */
const overMs = 2 * shortMs + 15
const spaces = ['once', 'processing'] as const
const keys = ['a', 'A', 'a ', 'ä', '{a}:b', '😀'] as const
const windows = ['w', 'W'].map(digest)
const values = ['', digest('x'), digest('y')]

/** A claim with the token of each side. */
interface Claim {
  readonly space: string
  readonly key: string
  readonly keepMs: number
  readonly model: string
  readonly engine: string
}

class GuardsWalk {
  readonly trace: string[] = []
  readonly counts: Record<string, number> = {}
  readonly #model: GuardStore = new MemoryGuards(Date.now)
  readonly #engine: GuardStore
  readonly #random: Random
  /** The newest last; old ones are tried now and then, and must be refused. */
  readonly #claims: Claim[] = []
  #isShort = false

  constructor(engine: GuardStore, seed: number) {
    this.#engine = engine
    this.#random = new Random(seed)
  }

  async step(): Promise<void> {
    const [, name, take] = this.#random.weighted([
      [10, 'claim', () => this.#claim()],
      [8, 'settle', () => this.#settle()],
      [3, 'renew', () => this.#renew()],
      [2, 'forget', () => this.#forget()],
      [6, 'seen', () => this.#seen()],
      [1, 'prune', () => this.#prune()],
    ] as const)
    this.counts[name] = (this.counts[name] ?? 0) + 1
    this.#isShort = false
    await take()
    if (this.#isShort) await sleep(overMs)
    for (const space of spaces)
      assert.deepEqual(await listed(this.#engine, space), await listed(this.#model, space))
  }

  async #claim(): Promise<void> {
    const asks = this.#random.draw(keys, 1 + this.#random.below(4)).map((key) => ({
      ...{ key, space: this.#random.pick(spaces), leaseMs: this.#span(), keepMs: this.#span() },
      mode: this.#random.pick(['at-least-once', 'at-least-once', 'at-most-once'] as const),
      fingerprint: this.#random.pick([null, null, null, 'f']),
    }))
    this.#note('claim', asks)
    const [engine, model] = [await this.#engine.claim(asks), await this.#model.claim(asks)]
    assert.deepEqual(engine.map(standingView), model.map(standingView))
    for (const [index, { space, key, keepMs }] of asks.entries()) {
      const [ours, theirs] = [model[index]!, engine[index]!]
      if (ours.status !== 'run' || theirs.status !== 'run') continue
      this.#claims.push({ space, key, keepMs, model: ours.token, engine: theirs.token })
    }
  }

  async #settle(): Promise<void> {
    const chosen = this.#chosen(1 + this.#random.below(3))
    const ends = chosen.map((claim) => ({
      claim,
      end: this.#random.pick(['done', 'done', 'failed', 'released'] as const),
      result: this.#random.pick([null, '"ä😀"', '{"n":1}']),
    }))
    this.#note('settle', ends)
    const of = (side: 'model' | 'engine') =>
      ends.map(({ claim: { space, key, ...tokens }, end, result }): GuardEnd => {
        return { space, key, token: tokens[side], end, result: end === 'done' ? result : null }
      })
    // The short retention of an end starts now.
    this.#isShort = ends.some(({ claim }) => claim.keepMs === shortMs)
    assert.deepEqual(await this.#engine.settle(of('engine')), await this.#model.settle(of('model')))
  }

  async #renew(): Promise<void> {
    for (const { space, key, model, engine } of this.#chosen(1)) {
      const leaseMs = this.#span()
      this.#note('renew', { space, key, leaseMs })
      const ours = await this.#model.renew({ space, key, token: model }, leaseMs)
      const theirs = await this.#engine.renew({ space, key, token: engine }, leaseMs)
      assert.equal(instantView(theirs), instantView(ours))
    }
  }

  async #forget(): Promise<void> {
    const [space, key] = [this.#random.pick(spaces), this.#random.pick(keys)]
    this.#note('forget', { space, key })
    assert.equal(await this.#engine.forget(space, key), await this.#model.forget(space, key))
  }

  async #seen(): Promise<void> {
    const asks = Array.from({ length: 1 + this.#random.below(4) }, () => ({
      window: this.#random.pick(windows),
      value: this.#random.pick(values),
      windowMs: this.#span(),
    }))
    this.#note('seen', asks)
    assert.deepEqual(await this.#engine.seen(asks), await this.#model.seen(asks))
  }

  async #prune(): Promise<void> {
    const limit = 1 + this.#random.below(5)
    this.#note('prune', limit)
    assert.ok((await this.#engine.prune(limit)) <= limit)
    await this.#model.prune(limit)
  }

  /** Claims that are mostly new, sometimes old, and sometimes of another key. */
  #chosen(count: number): Claim[] {
    return this.#random.draw(this.#claims.slice(-6), count).map((claim) => {
      if (this.#random.chance(0.9)) return claim
      const other = this.#random.pick(this.#claims)
      return { ...claim, model: other.model, engine: other.engine }
    })
  }

  #span(): number {
    if (this.#random.chance(0.8)) return farMs
    this.#isShort = true
    return shortMs
  }

  #note(name: string, what: unknown): void {
    this.trace.push(`${name} ${JSON.stringify(what)}`)
    if (this.trace.length > 40) this.trace.shift()
  }
}

/** Without tokens, and with instants only as far as two clocks can agree on them. */
function standingView(standing: GuardStanding): unknown {
  switch (standing.status) {
    case 'run':
      return { status: 'run', attempt: standing.attempt }
    case 'running':
      return { status: 'running', isFar: standing.leaseEndsInMs > farMs / 2 }
    default:
      return standing
  }
}

async function listed(store: GuardStore, space: string): Promise<unknown> {
  const { items, cursor } = await store.list({ space, limit: 100 })
  assert.equal(cursor, null)
  return items.map(recordView).toSorted((a, b) => (a.key < b.key ? -1 : 1))
}

function recordView({ claimedAt, endsAt, ...guard }: GuardRecord) {
  return { ...guard, claimed: instantView(claimedAt), ends: endsAt && instantView(endsAt) }
}

function instantView(at: number | undefined): 'none' | 'past' | 'near' | 'far' {
  if (at === undefined) return 'none'
  const leftMs = at - Date.now()
  if (leftMs < -farMs / 2) return 'past'
  return leftMs > farMs / 2 ? 'far' : 'near'
}
