/** The demo: a fleet that makes every room busy. Here it plays for some seconds; `npm run soak -- demo` lets it play for ten minutes. */
import assert from 'node:assert/strict'
import { open } from 'signalbox'
import { createClient } from 'signalbox/client'
import { createServer } from 'signalbox/server'
import { test } from 'vitest'
import { startDemo } from '../src/demo/index.ts'
import { within } from './support/deadline.ts'

test('the demo uses every module without an error, and stops', async () => {
  await using box = await open('memory:', { allowPrivate: ['127.0.0.0/8'] })
  await using server = createServer({ box, port: 0 })
  const { url } = await server.listen()
  const faults: string[] = []
  const demo = startDemo({ box, url, onFault: (who, error) => faults.push(`${who}: ${String(error)}`) })
  const client = createClient(url)
  const busy = {
    jobs: async () => (await client.jobs.list({ state: 'completed', limit: 1 })).items.length > 0,
    limits: async () => (await client.jobs.stats()).some(({ limits }) => limits !== null),
    schedules: async () => (await client.jobs.schedules.list()).items.length === 2,
    locks: async () => (await client.locks.list()).items.length > 0,
    monitor: async () => (await client.monitor.decisions()).items.length > 0,
    notifications: async () => (await client.monitor.notifications()).items.length > 0,
    nodes: async () => (await client.dispatch.nodes()).items.length > 0,
    tasks: async () => (await client.dispatch.tasks()).items.length > 0,
  }
  try {
    for (const [room, isBusy] of Object.entries(busy)) {
      const look = async () => {
        while (!(await isBusy())) await new Promise((resolve) => setTimeout(resolve, 50))
      }
      await within(30_000, `${room} to be busy`, look())
    }
  } finally {
    client.close()
    await within(20_000, 'the demo to stop', demo.stop())
  }
  assert.deepEqual(faults, [])
}, 90_000)
