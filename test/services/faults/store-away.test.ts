import assert from 'node:assert/strict'
import { readdirSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { open } from 'signalbox'
import { createServer } from 'signalbox/server'
import { test } from 'vitest'
import { within } from '../../support/deadline.ts'
import { startMariadb, startPostgres } from '../../support/services/index.ts'
import { hasService, serviceFacts } from '../../support/services/own.ts'
import type { ServiceName } from '../../support/services/service.ts'

// Only a database that the test starts may be killed.
const isOurs = (name: ServiceName) => hasService(name) && serviceFacts(name).from !== 'environment'
const starts = { postgres: startPostgres, mariadb: startMariadb } as const

for (const name of ['postgres', 'mariadb'] as const) {
  test.runIf(isOurs(name))(
    `a server whose database is killed reports it, answers with error codes, and recovers (${name})`,
    { timeout: 120_000 },
    async () => {
      await using database = await starts[name]({ durable: true })
      const { revivable } = database
      assert.ok(revivable)
      await using box = await open(database.url, { migrate: true })
      const unforeseen: unknown[] = []
      await using server = createServer({ box, port: 0, onError: (error) => unforeseen.push(error) })
      const { url } = await server.listen()
      const headers = { 'content-type': 'application/json' }
      const add = (key: string) =>
        fetch(`${url}/v1/jobs`, {
          method: 'POST',
          headers: { ...headers, 'idempotency-key': key },
          body: '{"kind":"mail"}',
        })
      const becomes = async (status: number) => {
        while ((await fetch(`${url}/readyz`)).status !== status) await sleep(100)
      }
      assert.equal((await add('before')).status, 201)
      // Meanwhile one client waits for a job, and one watches.
      const waiting = fetch(`${url}/v1/jobs/claim`, {
        method: 'POST',
        headers,
        body: '{"queues":["none"],"waitMs":60000}',
      }).then((reply) => reply.status)
      const watching = await fetch(`${url}/v1/events`)
      const handles = handleCount()

      for (let round = 0; round < 2; round++) {
        await revivable.crash()
        await within(10_000, 'to be not ready', becomes(503))
        assert.equal((await fetch(`${url}/livez`)).status, 200)
        const reply = await within(20_000, 'the refusal', add(`away-${round}`))
        const { code } = (await reply.json()) as { code: string }
        assert.equal(reply.status, 503, code)
        await revivable.restart()
        await within(10_000, 'to be ready again', becomes(200))
        const again = await add(`away-${round}`)
        assert.ok(again.status === 201, `${again.status}: the same key is taken after it`)
      }
      const { items } = (await (await fetch(`${url}/v1/queues`)).json()) as { items: { ready: number }[] }
      assert.equal(items[0]?.ready, 3, 'each key is one job')
      assert.deepEqual(unforeseen, [])
      assert.ok(handleCount() <= handles + 20, `${handles} handles have become ${handleCount()}`)
      await watching.body?.cancel()
      await server.close({ graceMs: 100 })
      assert.ok([200, 503].includes(await within(5_000, 'the wait', waiting)))
    },
  )
}

/** Open files and sockets of this process. */
function handleCount(): number {
  return process.platform === 'linux' ? readdirSync('/proc/self/fd').length : 0
}
