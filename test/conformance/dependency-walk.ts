/** The steps of the walk about dependencies, the same on the model and on an engine. */

import type { DependencyStore, NewDependencies, QueueLimits } from '../../src/jobs/index.ts'
import type { Backend } from '../../src/storage/backend.ts'
import type { Random } from './random.ts'

export interface DependencyWalkParts {
  readonly random: Random
  readonly model: Backend
  readonly farMs: number
  /** A job that exists or existed; seldom one that never existed. */
  anId(): string
  note(what: string): void
  /** The same call on both. Their answers must be equal once ids and tokens are normalised. */
  both<Answer>(
    call: (dependencies: DependencyStore) => Promise<Answer>,
    view?: (answer: Answer) => unknown,
  ): Promise<Answer>
}

const resources = ['r', 'R', 'r '] as const

export class DependencyWalk {
  readonly #parts: DependencyWalkParts
  readonly #blocked = new Set<string>()

  constructor(parts: DependencyWalkParts) {
    this.#parts = parts
  }

  /** The dependencies of a new job; mostly none. */
  dependsOn(id: string, together: readonly string[]): NewDependencies | null {
    const { random, anId } = this.#parts
    if (random.chance(0.7)) return null
    const others = [...random.some(together, 0.3), ...(random.chance(0.5) ? [anId()] : [])]
    const jobs = [...new Set(others)].filter((other) => other !== id)
    const hasLock = jobs.length === 0 || random.chance(0.4)
    this.#blocked.add(id)
    return { jobs, lock: hasLock ? { operation: 'o', resource: random.pick(resources) } : null }
  }

  /** Limits or none; rates have periods so long that no start of the walk is forgotten. */
  limits(): QueueLimits | null {
    const { random } = this.#parts
    if (random.chance(0.3)) return null
    const one = () => ({
      concurrency: random.chance(0.7) ? 1 + random.below(3) : null,
      rate: random.chance(0.3) ? { count: 1 + random.below(6), perMs: 86_400_000 } : null,
    })
    return { ...one(), perKey: random.chance(0.6) ? one() : null }
  }

  async meet(): Promise<void> {
    const { random, model, anId, note, both } = this.#parts
    const unmet = await model.dependencies.unmet({ limit: 100 })
    const some = random.draw(unmet, 1 + random.below(4))
    if (random.chance(0.2)) some.push({ jobId: anId(), dependencyId: anId() })
    note(JSON.stringify(some))
    await both(
      (dependencies) => dependencies.meet(some),
      (unblocked) => unblocked.map(({ jobId, queue, to }) => `${jobId} ${queue} ${to}`).toSorted(),
    )
  }

  async fail(): Promise<void> {
    const { random, anId, note, both } = this.#parts
    const waiting = random.draw([...this.#blocked], 1)
    const ends = [...new Set([...waiting, anId()])].map((jobId) => ({ jobId, error: '{"message":"f"}' }))
    note(JSON.stringify(ends))
    await both(
      (dependencies) => dependencies.fail(ends),
      (ids) => ids.toSorted(),
    )
  }

  async tend(): Promise<void> {
    const { random, farMs, both } = this.#parts
    const of = random.chance(0.5) ? { of: random.draw([...this.#blocked], 3) } : {}
    const tendMs = random.chance(0.5) ? 0 : farMs
    await both(
      (dependencies) => dependencies.tend({ ...of, limit: 1_000, tendMs }),
      (tended) =>
        tended.map(({ dueInMs, ...dependsOn }) => JSON.stringify([dependsOn, dueInMs === 0])).toSorted(),
    )
  }

  /** Mostly for a job that depends on a lock, with its present request. */
  async #ask(): Promise<{ readonly jobId: string; readonly askNo: number }> {
    const { random, model, anId } = this.#parts
    const [jobId = anId()] = random.draw([...this.#blocked], 1)
    const [fence] = await model.dependencies.fences([jobId])
    return { jobId, askNo: random.chance(0.85) ? (fence?.askNo ?? 1) : 1 + random.below(3) }
  }

  async grant(): Promise<void> {
    const { random, note, both } = this.#parts
    const request = { ...(await this.#ask()), fence: 1 + random.below(1_000) }
    note(JSON.stringify(request))
    await both((dependencies) => dependencies.grant(request))
  }

  async blockAgain(): Promise<void> {
    const { note, both } = this.#parts
    const request = await this.#ask()
    note(JSON.stringify(request))
    await both((dependencies) => dependencies.blockAgain(request))
  }

  async take(): Promise<void> {
    const { random, anId, both } = this.#parts
    const ids = [...new Set([...random.draw([...this.#blocked], 3), anId()])]
    await both((dependencies) => dependencies.take(ids))
  }

  async rest(): Promise<void> {
    const { random, both } = this.#parts
    const ids = [...new Set(random.draw([...this.#blocked], 3))]
    await both((dependencies) => dependencies.rest(ids))
  }

  async prune(): Promise<void> {
    await this.#parts.both((dependencies) => dependencies.prune(1_000))
  }

  async around(): Promise<void> {
    const { anId, both } = this.#parts
    const id = anId()
    await both((dependencies) => dependencies.around(id, 1_000))
    await both((dependencies) => dependencies.states([id, 'unknown']))
  }

  /** Everything visible of dependencies. */
  async seen({ dependencies }: Backend): Promise<unknown> {
    const ids = [...this.#blocked]
    return {
      dependencies: await dependencies.unmet({ limit: 10_000 }),
      fences: await dependencies.fences(ids),
    }
  }
}
