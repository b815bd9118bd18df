/**
 * Three library workers in three processes, and a server that runs no jobs. An operator sees the workers and an alert
 * at the server, quiets one worker, and another is killed.
 */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { open } from 'signalbox'
import { createClient } from 'signalbox/client'
import { createServer } from 'signalbox/server'
import { test } from 'vitest'
import { addAlerts, listAlerts } from '../../../src/http/contract/index.ts'
import { ownSqlite } from '../../conformance/candidates.ts'
import { within } from '../../support/deadline.ts'
import { startReceiver } from '../../support/robots/receiver.ts'
import { hasService, ownMariadb, ownPostgres } from '../../support/services/own.ts'

const program = fileURLToPath(new URL('../fleet/working-process.ts', import.meta.url))
const namespace = 'fleet'
const secret = 'receiver-secret-9876543210'

for (const { name, own, isThere } of [
  { name: 'sqlite', own: ownSqlite, isThere: true },
  { name: 'postgres', own: ownPostgres, isThere: hasService('postgres') },
  { name: 'mariadb', own: ownMariadb, isThere: hasService('mariadb') },
]) {
  test.skipIf(!isThere)(
    `${name}: a server shows three library workers, their dead jobs, and which worker is quiet or killed`,
    { timeout: 180_000, concurrent: true },
    async () => {
      await using database = await own()
      const settings = { alerts: { everyMs: 500 }, allowPrivate: ['127.0.0.0/8'] }
      await using box = await open(database.url, { namespace, migrate: true, ...settings })
      await using server = createServer({ box, port: 0 })
      const { url } = await server.listen()
      using client = createClient(url, { namespace })
      await using cleanUp = new AsyncDisposableStack()
      const receiver = cleanUp.adopt(await startReceiver({ secret }), (one) => one.close())
      const channel = { type: 'webhook' as const, url: receiver.url, secret }
      await client.call(addAlerts, { body: { name: 'on-call', channel, digestMs: 0, windowMs: 0 } })
      const [, , killed] = ['one', 'two', 'three'].map((queue) =>
        cleanUp.adopt(begin(database.url, queue), end),
      )

      const states = async () =>
        Object.fromEntries((await box.jobs.workers()).items.map(({ id, state }) => [id, state]))
      await until('all workers are listed', async () => Object.keys(await states()).length === 3)
      const dead = ['dead-jobs one', 'dead-jobs three', 'dead-jobs two']
      await until('an alert fires for each queue with dead jobs', async () => {
        const { firing } = await client.call(listAlerts)
        return (
          firing
            .map(({ subject }) => subject)
            .toSorted()
            .join() === dead.join()
        )
      })
      await receiver.waitFor(3, 30_000)

      await box.jobs.quietWorker('two')
      await until('one worker is quiet', async () => (await states()).two === 'quiet')
      killed!.kill('SIGKILL')
      await until('the killed worker is gone after its lease', async () => (await states()).three === 'gone')
      assert.deepEqual(await states(), { one: 'running', two: 'quiet', three: 'gone' })
      const { seenAt, leaseEndsAt, at, pid } = (await box.jobs.findWorker('three'))!
      assert.ok(seenAt < leaseEndsAt && leaseEndsAt <= at)
      assert.equal(pid, killed!.pid)
      await assert.rejects(box.jobs.quietWorker('three'), { code: 'conflict' })
      // Another worker may have its name.
      cleanUp.adopt(begin(database.url, 'three'), end)
      await until('a worker of that name is back', async () => (await states()).three === 'running')

      // A quiet worker claims nothing; a running worker continues.
      const [quiet, running] = await Promise.all(
        ['two', 'one'].map((queue) => box.jobs.add('mail', null, { queue })),
      )
      await until('the running worker is at work', async () => (await stateOf(running!.id)) === 'completed')
      assert.equal(await stateOf(quiet!.id), 'ready')
      await box.jobs.resumeWorker('two')
      await until('the worker goes on', async () => (await stateOf(quiet!.id)) === 'completed')

      async function stateOf(id: string): Promise<string | undefined> {
        return (await box.jobs.find(id))?.state
      }
    },
  )
}

function begin(url: string, queue: string): ChildProcess {
  return spawn(process.execPath, [program, url, namespace, queue, '40'], {
    stdio: ['pipe', 'ignore', 'inherit'],
  })
}

async function end(child: ChildProcess): Promise<void> {
  child.stdin!.end()
  if (child.exitCode === null && child.signalCode === null) await once(child, 'exit')
}

async function until(what: string, isSo: () => Promise<boolean>): Promise<void> {
  const look = async () => {
    while (!(await isSo())) await new Promise((resolve) => setTimeout(resolve, 250))
  }
  await within(90_000, what, look())
}
