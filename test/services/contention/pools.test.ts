import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { open } from 'signalbox'
import { createContention } from 'signalbox/contention'
import { test } from 'vitest'
import { startRedis } from '../../support/services/index.ts'
import { hasService, ownMariadb, ownPostgres } from '../../support/services/own.ts'

const owners = { postgres: ownPostgres, mariadb: ownMariadb }

for (const [name, own] of Object.entries(owners)) {
  test.runIf(hasService(name as keyof typeof owners))(
    `on ${name}, waits for a connection are charged to their callers, and all connections are returned`,
    async () => {
      await using database = await own()
      const url = new URL(database.url)
      url.searchParams.set('pool', '1')
      const contention = createContention()
      await using box = await open(url.href, { migrate: true, contention })
      // One connection for handlers, and two handlers that want a separate transaction each.
      const { promise: done, resolve } = Promise.withResolvers<void>()
      let ran = 0
      await using worker = box.jobs.worker({
        concurrency: 2,
        handlers: {
          slow: async (job) => {
            await job.transaction(async () => {
              await new Promise((next) => setTimeout(next, 50))
            })
            if (++ran === 2) resolve()
          },
        },
      })
      await box.jobs.addMany([
        { kind: 'slow', payload: 1 },
        { kind: 'slow', payload: 2 },
      ])
      await worker.start()
      await done
      await worker.stop()

      const { matrix, lanes, kinds } = contention.snapshot()
      const kind = `${name}.handlers.transaction`
      const cell = matrix.find(({ waiter, holder }) => waiter === kind && holder === kind)
      assert.ok(cell !== undefined && cell.ms > 25, JSON.stringify(matrix))
      const lane = lanes.find((one) => one.lane === `${name}.handlers`)!
      assert.deepEqual([lane.size, lane.waiting, lane.holding], [1, 0, 0])
      assert.ok(lane.peakWaiting >= 1)
      // The wake-up may still be in flight; no caller waits for it.
      const core = () => contention.snapshot().lanes.find((one) => one.lane === `${name}.core`)!
      for (let tries = 0; core().holding > 0 && tries < 100; tries++) await sleep(50)
      assert.deepEqual([core().waiting, core().holding], [0, 0])
      assert.ok(kinds.some((one) => one.lane === `${name}.core` && one.hold.count > 0))
    },
  )
}

test.runIf(hasService('redis'))('a Redis call counts as active until it is answered', async () => {
  await using server = await startRedis()
  const contention = createContention()
  await using box = await open('memory:', { redis: server.url, contention })
  await using held = await box.locks.hold('deploy', 'web', { node: 'a' })
  await held.release()

  const { kinds } = contention.snapshot()
  assert.ok(kinds.find(({ kind }) => kind === 'redis.call')!.hold.count >= 2)
})
