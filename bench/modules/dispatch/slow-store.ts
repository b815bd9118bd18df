/** A store each of whose answers takes as long as it is told to take at that moment. */
export function slowStore<Store extends object>(store: Store, latencyMs: () => number): Store {
  return new Proxy(store, {
    get(target, name) {
      const call = Reflect.get(target, name) as unknown
      if (typeof call !== 'function') return call
      return async (...given: unknown[]) => {
        await new Promise((resolve) => setTimeout(resolve, latencyMs()))
        return (call as (...given: unknown[]) => unknown).apply(target, given)
      }
    },
  })
}
