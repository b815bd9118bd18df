/** A process that reports, or one that sends, until it is killed or asked to leave. */

import { setTimeout as sleep } from 'node:timers/promises'
import { isSignalboxError, open } from '../../../src/index.ts'
import { keepCompiled } from '../../support/compiled.ts'
import { createEventLog } from '../event-log.ts'
import { createRandom } from '../random.ts'
import {
  hallStates,
  type NotifyingEvent,
  type NotifyingProcessOptions,
  venueCounts,
} from './notifying-plan.ts'

const options: NotifyingProcessOptions = JSON.parse(process.argv[2]!)
const { role, url, folder, name, pauseMs, guest } = options
const box = await open(url as 'sqlite:', {
  namespace: 'notifying',
  allowPrivate: ['127.0.0.0/8'],
  // States of the hall come back within milliseconds, and each time it is another event.
  monitor: { batchSize: 10, eventDedupTtlMs: 1, lockTtlMs: 2_000 },
})
const random = createRandom(options.seed)
let isOver = false
process.once('SIGTERM', () => {
  isOver = true
})

keepCompiled()
if (role === 'sender') await send()
else await report()
await box.close()
process.exit(0)

async function send(): Promise<void> {
  await using sender = box.monitor.sender({
    pollMs: 50,
    leaseMs: 1_000,
    sendMs: 500,
    retryMs: 50,
    turnMs: 500,
  })
  await sender.start()
  console.log('ready')
  while (!isOver) await sleep(20)
}

async function report(): Promise<void> {
  using log = createEventLog<NotifyingEvent>(folder, name)
  console.log('ready')
  for (let turn = 0; !isOver; turn++) {
    await sleep(random.whole(0, pauseMs))
    try {
      log.write(await reportOnce(turn))
      if (random() < 0.1) {
        await changeRules()
        log.write({ type: 'rules' })
      }
    } catch (error) {
      const code = isSignalboxError(error) ? error.code : 'unknown'
      log.write({ type: 'failed', error: `${code}: ${error}` })
    }
  }
}

async function reportOnce(turn: number): Promise<NotifyingEvent> {
  const source = random() < 0.6 ? 'gym' : 'hall'
  const count = venueCounts[source]
  const first = random.whole(0, count - 1)
  const length = random.whole(1, Math.ceil(count / 2))
  const venues = Array.from({ length }, (_, index) => ({
    venueId: `v${(first + index) % count}`,
    state: source === 'gym' ? `${name}.${turn}.${index}` : random.pick(hallStates),
  }))
  // Batches of several reporters meet the same venues in other orders.
  if (random() < 0.5) venues.reverse()
  const answer = await box.monitor.report({
    taskId: `${name} ${turn}`,
    source,
    timeSlot: '18:00',
    observedAt: Date.now(),
    venues,
  })
  const { changes, suppressed, failed } = answer
  return { type: 'reported', source, changes, suppressed, failed }
}

/** Decisions made meanwhile are overtaken by it, and messages that wait for the guest are cancelled. */
async function changeRules(): Promise<void> {
  const { id } = await box.monitor.subscribe({
    name: 'guest',
    match: { source: random.pick(['gym', 'elsewhere']) },
    windowMs: 0,
    retryInMs: 30,
    channel: guest,
  })
  const silence = await box.monitor.silence({ forMs: 1_000, match: { source: 'elsewhere' } })
  await sleep(random.whole(0, 30))
  await box.monitor.unsubscribe(id)
  await box.monitor.unsilence(silence.id)
}
