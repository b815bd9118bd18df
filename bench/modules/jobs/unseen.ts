/**
 * The cost of rows of workers and of counts over time: Signalbox with its defaults against Signalbox without both. The
 * difference is small, so there are many rounds.
 */
import type { Contestant, Trial } from '../../case.ts'
import { atLeastTimes } from '../../goal.ts'
import { drained } from './drain.ts'
import { groundOf } from './ground.ts'
import { unseen } from './lanes.ts'
import { oneByOne, paid, payPostgres, signalboxPays, tenConnections } from './transaction.ts'

function unseenTrial(name: string, seen: Contestant, without: Contestant): Trial {
  return {
    name,
    rounds: 15,
    open: groundOf('postgres'),
    contestants: { signalbox: seen, unseen: without },
    cases: [
      {
        name,
        unit: 'jobs/s',
        better: 'higher',
        figure: 'rate',
        peers: ['unseen'],
        goal: atLeastTimes(0.97, 'unseen', 'no rows of workers, no counts'),
      },
    ],
  }
}

export const unseenTrials: readonly Trial[] = [
  unseenTrial('drain-tuned-unseen', drained('signalbox tuned'), drained('signalbox tuned, unseen')),
  unseenTrial('drain-default-unseen', drained('signalbox'), drained('signalbox unseen')),
  unseenTrial(
    'transaction-unseen',
    paid('postgres', oneByOne, signalboxPays(payPostgres, tenConnections)),
    paid('postgres', oneByOne, signalboxPays(payPostgres, { ...tenConnections, options: unseen })),
  ),
]
