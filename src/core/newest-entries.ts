/** Puts it in as the newest of at most so many; the one that is there longest makes room. */
export function setNewest<Key, Value>(map: Map<Key, Value>, key: Key, value: Value, limit: number): void {
  // Taken out first, so that one that comes again is the newest too.
  map.delete(key)
  if (map.size >= limit) {
    for (const oldest of map.keys()) {
      map.delete(oldest)
      break
    }
  }
  map.set(key, value)
}
