/** The monitor: reports with raw SQL as the limit, what they cost as they grow, and what a dead channel costs the others. */
import type { BenchModule } from '../../case.ts'
import { growthTrial } from './growth.ts'
import { memoryTrials } from './memory.ts'
import { notificationTrial } from './notifications.ts'
import { reportTrials } from './reports.ts'

export const monitorModule: BenchModule = {
  name: 'monitor',
  trials: [...reportTrials, growthTrial, ...memoryTrials, notificationTrial],
}
