/** A method of a wrapped object, as its wrapper sees it. */
export type Method = (...args: unknown[]) => unknown

/**
 * An object with the same methods, each made by `wrap`; other properties are read from the original. For wrappers that treat
 * every method alike: they measure it, or check something first. Methods that are added later are not wrapped.
 */
export function wrapMethods<Target extends object>(
  target: Target,
  wrap: (method: Method, name: string) => Method,
): Target {
  const wrapped = Object.create(Reflect.getPrototypeOf(target)) as object
  for (const name of memberNames(target)) {
    const value: unknown = Reflect.get(target, name)
    const isMethod = typeof value === 'function' && typeof name === 'string'
    const call: Method = (...args) => Reflect.apply(Reflect.get(target, name) as Method, target, args)
    Object.defineProperty(wrapped, name, {
      ...(isMethod
        ? { value: wrap(call, name), writable: true }
        : { get: () => Reflect.get(target, name) as unknown }),
      configurable: true,
      enumerable: true,
    })
  }
  return wrapped as Target
}

function memberNames(target: object): ReadonlySet<PropertyKey> {
  const names = new Set<PropertyKey>()
  for (
    let at: object | null = target;
    at !== null && at !== Object.prototype;
    at = Reflect.getPrototypeOf(at)
  )
    for (const name of Reflect.ownKeys(at)) if (name !== 'constructor') names.add(name)
  return names
}
