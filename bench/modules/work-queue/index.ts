/** The in-process work queue, against fastq and p-queue where they do the same work. */
import type { BenchModule } from '../../case.ts'
import { cycleTrials } from './cycle.ts'
import { delayedTrial } from './delayed.ts'
import { growthTrials } from './growth.ts'
import { millionTrial } from './million.ts'
import { streamTrials } from './stream.ts'

export const workqueueModule: BenchModule = {
  name: 'workqueue',
  trials: [...cycleTrials, ...streamTrials, millionTrial, delayedTrial, ...growthTrials],
}
