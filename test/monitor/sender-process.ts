/** A process that sends, until it is asked to stop or is killed. Prints its counts when it stops. */

import { parseChannel } from '../../src/monitor/channels/index.ts'
import { createOutbound } from '../../src/monitor/delivery/outbound.ts'
import { createSender } from '../../src/monitor/delivery/sender.ts'
import { StoredChannels } from '../../src/monitor/stored-channels.ts'
import { openSqlite } from '../../src/storage/sqlite/index.ts'

const [url, options] = process.argv.slice(2)
const allowPrivate = ['127.0.0.0/8']
const backend = await openSqlite(url!, { namespace: 'default', migrate: false })
const outbound = createOutbound({ allowPrivate, timeoutMs: 2_000 })
const sender = createSender(
  {
    store: backend.monitor,
    jobs: backend.jobs,
    notifier: backend.notifier,
    outbound,
    channels: new StoredChannels({
      namespace: 'default',
      keys: undefined,
      parse: (config) => parseChannel(config, { allowPrivate }),
    }),
    reconcile: async () => undefined,
  },
  JSON.parse(options!),
)
process.once('disconnect', () => process.exit(1))
process.on('message', async () => {
  await sender.stop()
  process.send!(sender.counts(), () => process.exit(0))
})
await sender.start()
process.send!('ready')
