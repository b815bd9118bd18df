import { crashTest } from '../engines.ts'
import { notifyThroughKills } from './notifying.ts'

crashTest(
  ['sqlite'],
  'with senders killed and a provider that fails, everybody hears every change in order, and repeats say so',
  (ground) => notifyThroughKills(ground, { seed: 1, reporters: 3, hits: 4, pauseMs: 150 }),
)
