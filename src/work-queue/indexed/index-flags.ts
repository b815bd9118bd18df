/** A yes or no by key index, a byte each. */
const smallest = 16

export class IndexFlags {
  #flags = new Uint8Array(smallest)

  has(index: number): boolean {
    return this.#flags[index] === 1
  }

  raise(index: number): void {
    if (index >= this.#flags.length) this.#grow(index * 2)
    this.#flags[index] = 1
  }

  lower(index: number): void {
    this.#flags[index] = 0
  }

  clear(): void {
    this.#flags = new Uint8Array(smallest)
  }

  /** Key indexes were renumbered. */
  renumber(newIndexes: Uint32Array): void {
    const flags = this.#flags
    this.clear()
    for (let oldIndex = 0; oldIndex < newIndexes.length; oldIndex++) {
      if (flags[oldIndex] === 1) this.raise(newIndexes[oldIndex] as number)
    }
  }

  #grow(length: number): void {
    const grown = new Uint8Array(length)
    grown.set(this.#flags)
    this.#flags = grown
  }
}
