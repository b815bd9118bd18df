/** Dispatch: choosing and reserving, waits with a slow store, servers with real sockets, and where tasks end up. */
import type { BenchModule } from '../../case.ts'
import { oneNodeTrial } from './one-node.ts'
import { placementTrials } from './placement.ts'
import { raceTrial } from './race.ts'
import { selectTrials } from './select.ts'
import { socketTrials } from './sockets.ts'

export const dispatchModule: BenchModule = {
  name: 'dispatch',
  trials: [...selectTrials, oneNodeTrial, ...socketTrials, raceTrial, ...placementTrials],
}
