import { hasService, serviceFacts } from '../../support/services/own.ts'
import { crashTest } from '../engines.ts'
import { killDispatch } from './dispatch-killing.ts'

// A Redis that was there before us is not ours to kill.
const isOurs = hasService('redis') && serviceFacts('redis').from !== 'environment'

crashTest(
  isOurs ? ['sqlite'] : [],
  'with servers, nodes and Redis killed, every task ends once, and no node has more than its slots',
  (ground) => killDispatch(ground, { seed: 1, nodes: 6, kills: 6, repeats: false, forgets: false }),
)
