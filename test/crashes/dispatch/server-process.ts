/** One of the servers that share a fleet, made to be killed. Started by dispatch-killing.ts with its options as JSON. */
import { setTimeout as sleep } from 'node:timers/promises'
import { createServer } from '../../../src/http/server/index.ts'
import { open } from '../../../src/index.ts'
import { keepCompiled } from '../../support/compiled.ts'
import { type DispatchServerOptions, dispatchTimes } from './dispatch-plan.ts'

const { url, redis, port }: DispatchServerOptions = JSON.parse(process.argv[2]!)
const policy = { retryInMs: 50 }
// However often servers are hit, they give up no task for that.
const dispatch = { ...dispatchTimes, maxAttempts: 100, policy }
const box = await patiently(() => open(url as 'sqlite:', { redis, dispatch }))
const { server, url: address } = await patiently(async () => {
  const server = createServer({ box, port })
  return { server, url: (await server.listen()).url }
})
process.once('SIGTERM', async () => {
  await server.close({ graceMs: 2_000 })
  await box.close()
  process.exit(0)
})
keepCompiled()
console.log(`ready ${address}`)

/** Redis may be down just now, and the system may have lent the port to a connection for a moment. */
async function patiently<Made>(make: () => Promise<Made>): Promise<Made> {
  for (const deadline = Date.now() + 20_000; ; await sleep(100)) {
    try {
      return await make()
    } catch (error) {
      if (Date.now() > deadline) throw error
    }
  }
}
