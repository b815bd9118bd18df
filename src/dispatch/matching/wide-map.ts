/**
 * A map by text that never grows in one go. A plain map of ten thousand entries takes milliseconds at the moment it
 * doubles; this one is many small ones, which double at different times and in microseconds.
 */
const partCount = 256

/** A map with text as keys; it keeps no order. */
export class WideMap<Value> {
  /** One part until it is large: most maps never are. */
  #parts: Map<string, Value>[] = [new Map()]
  #size = 0

  get size(): number {
    return this.#size
  }

  get(key: string): Value | undefined {
    return this.#part(key).get(key)
  }

  set(key: string, value: Value): void {
    if (this.#size === partCount && this.#parts.length === 1) this.#widen()
    const part = this.#part(key)
    const before = part.size
    part.set(key, value)
    this.#size += part.size - before
  }

  delete(key: string): boolean {
    const had = this.#part(key).delete(key)
    if (had) this.#size -= 1
    return had
  }

  #part(key: string): Map<string, Value> {
    return this.#parts.length === 1 ? this.#parts[0]! : this.#parts[partOf(key)]!
  }

  #widen(): void {
    const entries = this.#parts[0]!
    this.#parts = Array.from({ length: partCount }, () => new Map())
    for (const [key, value] of entries) this.#parts[partOf(key)]!.set(key, value)
  }
}

/** FNV-1a over at most 64 characters of the text, spread over its length. */
function partOf(key: string): number {
  const stride = (key.length >> 6) + 1
  let hash = key.length
  for (let i = key.length - 1; i >= 0; i -= stride) hash = Math.imul(hash ^ key.charCodeAt(i), 0x01000193)
  return (hash ^ (hash >>> 15)) & (partCount - 1)
}
