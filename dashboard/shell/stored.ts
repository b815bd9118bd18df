import { useSyncExternalStore } from 'react'

/** A value outside of components. Components that use it render again when it changes. */
export interface Stored<Value> {
  get(): Value
  set(value: Value): void
  /** Calls until the returned function is called. */
  subscribe(changed: () => void): () => void
}

export function createStored<Value>(first: Value): Stored<Value> {
  let value = first
  const listeners = new Set<() => void>()
  return {
    get: () => value,
    set(next) {
      if (Object.is(next, value)) return
      value = next
      for (const listener of [...listeners]) listener()
    },
    subscribe(changed) {
      listeners.add(changed)
      return () => listeners.delete(changed)
    },
  }
}

/** The value as it is now, in a component. */
export function useStored<Value>(stored: Stored<Value>): Value {
  return useSyncExternalStore(stored.subscribe, stored.get)
}
