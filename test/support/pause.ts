import { setTimeout as sleep } from 'node:timers/promises'

const [firstMs, longestMs] = [4, 25]

/**
 * Pauses between polls of a test: short at first, then longer. A poll over the wire takes some milliseconds of
 * processor time, so a poll every 5 ms kept a core busy while a test waited.
 */
export function createPause(): () => Promise<void> {
  let ms = firstMs
  return async () => {
    await sleep(ms)
    ms = Math.min(ms * 1.4, longestMs)
  }
}
