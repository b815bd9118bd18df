import { crashTest } from '../engines.ts'
import { guardThroughKills } from './guarding.ts'

crashTest(
  ['sqlite'],
  'claimers killed with -9 never run a key that another holds or has done, and hold it only for its lease',
  ({ url }) => guardThroughKills({ url, namespace: 'guarding' }, { seed: 1, claimers: 3, kills: 3 }),
)
