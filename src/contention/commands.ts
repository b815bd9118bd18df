import { AsyncLocalStorage } from 'node:async_hooks'
import { wrapMethods } from '../core/wrap-methods.ts'
import { type Kinds, noteHold, noteWait } from './kinds.ts'
import type { Slowest } from './recorder.ts'
import { longWaitMs } from './recorder.ts'
import type { Matrix } from './wait-matrix.ts'

/**
 * Commands that await, such as requests. Their calls of a store are waits; the remaining time is their turn. The
 * asynchronous context identifies the command of a call.
 */
export class Commands {
  readonly #parts: CommandsParts
  readonly #current = new AsyncLocalStorage<Command>()

  constructor(parts: CommandsParts) {
    this.#parts = parts
  }

  during<Result>(kind: number, work: () => Promise<Result>, what?: string): Promise<Result> {
    const command = new Command(kind, this.#parts.now(), what)
    const over = () => this.#end(command)
    // The promise itself is returned: a wrapper would cost every request a turn.
    const result = this.#current.run(command, work)
    result.then(over, over)
    return result
  }

  /** The command of the current asynchronous context. */
  get current(): Command | undefined {
    return this.#current.getStore()
  }

  /** Records a call of a store, for its own kind and as a wait of the command. */
  called(kind: number, command: Command | undefined, from: number): void {
    const now = this.#parts.now()
    noteHold(this.#parts.kinds.get(kind), from, now)
    command?.waited(from, now)
  }

  #end(command: Command): void {
    const { kinds, matrix, slowest, store, now } = this.#parts
    const leftAt = now()
    command.isOver = true
    const kind = kinds.get(command.kind)
    const totalMs = Math.max(0, leftAt - command.begunAt - command.restedMs(leftAt))
    const waitMs = Math.min(totalMs, command.waitedMs)
    noteWait(kind, waitMs)
    noteHold(kind, leftAt - (totalMs - waitMs), leftAt)
    slowest.note(kind.id, command.what, waitMs, totalMs - waitMs, leftAt)
    for (const { from, to } of command.waits) {
      if (to - from > longWaitMs) matrix.waited(kind.id, from, to, store, command.what)
    }
  }
}

export interface CommandsParts {
  readonly kinds: Kinds
  readonly matrix: Matrix
  readonly slowest: Slowest
  /** The kind that is charged for time in which no other kind ran. */
  readonly store: number
  now(): number
}

/** A running command. */
export class Command {
  kind: number
  readonly begunAt: number
  readonly what: string | undefined
  /** Separate waits, in order. */
  readonly waits: { from: number; to: number }[] = []
  #restedMs = 0
  #restsSince: number | undefined
  /** The command ended. Loops that it started still run in its context, but their waits no longer count for it. */
  isOver = false

  constructor(kind: number, begunAt: number, what: string | undefined) {
    this.kind = kind
    this.begunAt = begunAt
    this.what = what
  }

  /** Records a wait. Parallel waits count once. Waits are reported in the order of their ends. */
  waited(from: number, to: number): void {
    if (this.isOver) return
    // A command that calls the store does not rest.
    if (this.#restsSince !== undefined) this.#restedMs -= to - Math.max(from, this.#restsSince)
    let start = from
    let last = this.waits.at(-1)
    while (last !== undefined && (last.to >= start || this.waits.length >= maxWaits)) {
      start = Math.min(start, last.from)
      this.waits.pop()
      last = this.waits.at(-1)
    }
    this.waits.push({ from: start, to })
  }

  get waitedMs(): number {
    return this.waits.reduce((sum, { from, to }) => sum + to - from, 0)
  }

  /** The command waits because there is no job or no event. This is not contention and is not counted. */
  rest(now: number): void {
    this.#restsSince ??= now
  }

  resume(now: number): void {
    this.#restedMs = this.restedMs(now)
    this.#restsSince = undefined
  }

  restedMs(now: number): number {
    return this.#restedMs + (this.#restsSince === undefined ? 0 : now - this.#restsSince)
  }
}

const maxWaits = 64

/** Methods that run work of the caller. The write queue or the pool measures them. */
const ofCallers: ReadonlySet<PropertyKey> = new Set(['transact', 'transactAll', 'settleIn'])

/**
 * Measures every asynchronous call of a store, under names such as `store.jobs.claim`. Results and errors stay the
 * same.
 */
export function meterStore<Store extends object>(
  store: Store,
  name: string,
  kinds: Kinds,
  commands: Commands,
  now: () => number,
): Store {
  return wrapMethods(store, (method, property) => {
    if (ofCallers.has(property)) return method
    let kind: number | undefined
    return (...args) => {
      kind ??= kinds.of(`store.${name}.${property}`)
      const measured = kind
      const command = commands.current
      const from = now()
      const answer = method(...args)
      if (answer instanceof Promise) {
        const over = () => commands.called(measured, command, from)
        answer.then(over, over)
      }
      return answer
    }
  })
}
