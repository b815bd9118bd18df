/** How fast jobs are put in line, many in a call. Each job is a row on disk when its call answers, except on Redis. */
import type { Contestant, Trial } from '../../case.ts'
import { printed } from '../../goal.ts'
import { groundOf } from './ground.ts'
import { fill } from './lane.ts'
import { type LaneName, lanes } from './lanes.ts'
import { createPlace } from './place.ts'

const added =
  (name: LaneName): Contestant =>
  async (conditions) => {
    const { engine, load } = lanes[name]
    await using place = await createPlace(conditions, engine)
    await using lane = await (await load())(place.url)
    const count = conditions.quick ? 20_000 : 50_000
    // As many again, so that everybody's code is compiled by then.
    await fill(lane, count)
    await place.settleDown()
    const startedAt = performance.now()
    await fill(lane, count)
    return { rate: (count / (performance.now() - startedAt)) * 1_000 }
  }

export const bulkTrial: Trial = {
  name: 'bulk-add',
  open: groundOf('postgres', 'redis'),
  contestants: {
    signalbox: added('signalbox'),
    'graphile-worker': added('graphile-worker'),
    'pg-boss': added('pg-boss tuned'),
    'BullMQ on Postgres': added('BullMQ on Postgres'),
    BullMQ: added('BullMQ'),
    limit: added('raw postgres'),
  },
  cases: [
    {
      name: 'bulk-add',
      unit: 'jobs/s',
      better: 'higher',
      figure: 'rate',
      peers: ['graphile-worker', 'pg-boss', 'BullMQ on Postgres', 'BullMQ'],
      goal: printed,
    },
  ],
}
