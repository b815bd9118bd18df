/**
 * A hundred notifications to each of nine receivers, and as many to a tenth that takes requests and never answers,
 * against the same without the tenth: the time from the sender's start until the nine have all of theirs. The dead one's
 * notifications are the oldest, so its job is the first in line.
 */
import { open } from 'signalbox'
import { parseChannel } from '../../../src/monitor/channels/index.ts'
import { createOutbound } from '../../../src/monitor/delivery/outbound.ts'
import { createSender } from '../../../src/monitor/delivery/sender.ts'
import { StoredChannels } from '../../../src/monitor/stored-channels.ts'
import type { Contestant, Trial } from '../../case.ts'
import { atMostTimes } from '../../goal.ts'
import { groundOf } from '../jobs/ground.ts'
import { createPlace } from '../jobs/place.ts'
import { startReceivers } from './receivers.ts'

const living = 9
const messages = 100
const allowPrivate = ['127.0.0.0/8']

function notifyAll(dead: number): Contestant {
  return async (conditions) => {
    await using place = await createPlace(conditions, 'sqlite')
    await using receivers = await startReceivers({ living, dead, messages })
    await using box = await open(place.url, { allowPrivate })
    const { backend, monitor } = box
    for (const [nr, url] of receivers.urls.entries()) {
      const channel = { type: 'webhook' as const, url, secret: 'bench-secret-0123456789' }
      const source = `source-${nr}`
      await monitor.subscribe({ name: source, match: { source }, channel, notifyNew: true })
      const venues = Array.from({ length: messages }, (_, at) => ({ venueId: `venue-${at}`, state: { at } }))
      const place = { source, timeSlot: '2025-06-01', observedAt: Date.now() }
      const { notified } = await monitor.report({ taskId: source, ...place, venues })
      if (notified !== messages) throw new Error(`${notified} notifications instead of ${messages}`)
    }

    await using outbound = createOutbound({ allowPrivate })
    const sender = createSender({
      store: backend.monitor,
      jobs: backend.jobs,
      notifier: backend.notifier,
      outbound,
      channels: new StoredChannels({
        namespace: 'default',
        keys: undefined,
        parse: (config) => parseChannel(config, { allowPrivate }),
      }),
      reconcile: (place) => monitor.reconcile(place),
    })
    const startedAt = performance.now()
    try {
      await sender.start()
      await receivers.full
      return { ms: performance.now() - startedAt }
    } finally {
      // With them end the requests that the dead one never answers, so that nothing is under way for long.
      await receivers[Symbol.asyncDispose]()
      await sender.stop()
    }
  }
}

export const notificationTrial: Trial = {
  name: 'dead-channel',
  open: groundOf('sqlite'),
  contestants: { signalbox: notifyAll(1), 'without it': notifyAll(0) },
  cases: [
    {
      name: 'dead-channel',
      unit: 'ms until nine have 100 each',
      better: 'lower',
      figure: 'ms',
      peers: ['without it'],
      goal: atMostTimes(1.2, 'without it', 'Signalbox, no channel dead'),
    },
  ],
}
