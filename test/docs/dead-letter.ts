/** Leaves a dead letter, for pages that look at one. */
import type { Box } from 'signalbox'

export async function bury(box: Box, queue = 'default'): Promise<void> {
  await box.jobs.add('charge', null, { queue })
  const [claimed] = await box.jobs.claim({ queues: [queue] })
  await box.jobs.nack(claimed!, { error: 'no funds', dead: true })
}
