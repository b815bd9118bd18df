/** Jobs, against graphile-worker, pg-boss and BullMQ, with raw SQL as the limit. */
import type { BenchModule } from '../../case.ts'
import { ackTrials } from './acks.ts'
import { addTrials } from './add.ts'
import { bulkTrial } from './bulk.ts'
import { countTrials } from './counts.ts'
import { drainTrials } from './drain.ts'
import { fleetTrials } from './fleet/trials.ts'
import { growthTrial } from './growth.ts'
import { idleTrials } from './idle.ts'
import { inFlightTrial } from './in-flight.ts'
import { limitsTrials } from './limits.ts'
import { pickupTrials } from './pick-up.ts'
import { transactionTrials } from './transaction.ts'
import { unseenTrials } from './unseen.ts'

export const jobsModule: BenchModule = {
  name: 'jobs',
  trials: [
    ...fleetTrials,
    ...drainTrials,
    ...limitsTrials,
    ...addTrials,
    bulkTrial,
    ...ackTrials,
    ...countTrials,
    ...transactionTrials,
    ...unseenTrials,
    ...pickupTrials,
    growthTrial,
    inFlightTrial,
    ...idleTrials,
  ],
}
