import type { Box, RemoteBox } from '../../index.ts'

/** How fast a queue fills and empties, by all processes on the store. */
export interface QueueRate {
  readonly addedPerSecond: number
  /** Attempts that ended, with any outcome. */
  readonly endedPerSecond: number
}

const spanMs = 120_000

/** The rates of the last two to three minutes; undefined if the server cannot give them, such as an older version. */
export async function queueRates(
  box: Pick<Box | RemoteBox, 'metrics'>,
): Promise<ReadonlyMap<string, QueueRate> | undefined> {
  try {
    const to = Date.now()
    const { items, from, now } = await box.metrics.series({ from: to - spanMs, by: 'queue' })
    const seconds = Math.max(1, (now - from) / 1_000)
    return new Map(
      items.flatMap(({ queue, total: { added, completed, failed, dead } }) => {
        const ended = completed + failed + dead
        const rate = { addedPerSecond: added / seconds, endedPerSecond: ended / seconds }
        return queue === null ? [] : [[queue, rate] as const]
      }),
    )
  } catch {
    return undefined
  }
}
