/** Sets the newest entry of a map with at most `limit` entries; the oldest one is removed. */
export function setNewest<Key, Value>(map: Map<Key, Value>, key: Key, value: Value, limit: number): void {
  // Deleted first, so that a known key becomes the newest.
  map.delete(key)
  if (map.size >= limit) {
    for (const oldest of map.keys()) {
      map.delete(oldest)
      break
    }
  }
  map.set(key, value)
}
