import { crashTest } from '../engines.ts'
import { notifyThroughKills } from './notifying.ts'

crashTest(
  ['sqlite'],
  'with killed senders and a failing provider, every change is notified in order, and repeats are marked',
  (ground) => notifyThroughKills(ground, { seed: 1, reporters: 3, hits: 4, pauseMs: 150 }),
)
