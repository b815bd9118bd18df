/** The guards on a memory store whose clock moves only when a test moves it. */

import { createFakeClock, type FakeClock } from '../../src/core/fake-clock.ts'
import { createOnce, type GuardStore, type Once, type OnceOptions } from '../../src/once/index.ts'
import { MemoryGuards } from '../../src/storage/memory/guards.ts'

export interface OnceStage extends AsyncDisposable {
  readonly once: Once
  readonly store: GuardStore
  readonly clock: FakeClock
}

export function openStage(options: OnceOptions = {}, startMs = 1_700_000_000_000): OnceStage {
  const clock = createFakeClock(startMs)
  const store = new MemoryGuards(() => clock.now())
  const once = createOnce({ store, clock }, options)
  return { once, store, clock, [Symbol.asyncDispose]: () => once[Symbol.asyncDispose]() }
}

/** A store of which some calls are others; all else is a memory store's. */
export function brokenStore(
  broken: Partial<GuardStore>,
  inner: GuardStore = new MemoryGuards(Date.now),
): GuardStore {
  return new Proxy(inner, {
    get(target, name) {
      const method: unknown = Reflect.get(broken, name) ?? Reflect.get(target, name)
      return typeof method === 'function' ? method.bind(target) : method
    },
  })
}

/** Lets everything that is due in this turn, and what it leads to, happen. */
export async function settled(): Promise<void> {
  for (let n = 0; n < 10; n++) await new Promise((resolve) => setImmediate(resolve))
}

/** Moves the time on in steps small enough that what a timer leads to happens before the next one. */
export async function pass(clock: FakeClock, ms: number, stepMs = 50): Promise<void> {
  for (let passed = 0; passed < ms; passed += stepMs) {
    clock.advance(Math.min(stepMs, ms - passed))
    await settled()
  }
}
