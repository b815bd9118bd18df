/** The in-process work queue, against fastq and p-queue where they do the same work. Goals: issue A. */
import type { Room } from '../../case.ts'
import { cycleTrials } from './cycle.ts'
import { delayedTrial } from './delayed.ts'
import { growthTrial } from './growth.ts'
import { millionTrial } from './million.ts'
import { streamTrial } from './stream.ts'

export const workqueueRoom: Room = {
  name: 'workqueue',
  trials: [...cycleTrials, streamTrial, millionTrial, delayedTrial, growthTrial],
}
