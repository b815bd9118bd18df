/** The dashboard in Chromium: what it loads, how soon it stands over millions of rows, and what leaving it open costs. */
import { ensureDashboard } from '../../../tools/dashboard.ts'
import type { BenchModule } from '../../case.ts'
import { firstLoadTrial } from './first-load.ts'
import { memoryTrial } from './memory.ts'
import { millionTrials } from './millions.ts'
import { tabsTrial } from './tabs.ts'

export const dashboardModule: BenchModule = {
  name: 'dashboard',
  // A fresh clone has none, and an old one would be measured for the new.
  prepare: ensureDashboard,
  trials: [firstLoadTrial, ...millionTrials, tabsTrial, memoryTrial],
}
