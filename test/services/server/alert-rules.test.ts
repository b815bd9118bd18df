/**
 * Each default rule, end to end: a real problem at two servers on one store, one message when it starts, one when it is
 * over. The node is a process that is killed; the store's faults are injected between the servers and the store.
 */
import assert from 'node:assert/strict'
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { type Box, open } from 'signalbox'
import { createClient } from 'signalbox/client'
import { createServer, type Served } from 'signalbox/server'
import { test } from 'vitest'
import type { alertRules } from '../../../src/fleet/alerts/index.ts'
import { addAlerts, listAlerts } from '../../../src/http/contract/index.ts'
import { ownSqlite } from '../../conformance/candidates.ts'
import { within } from '../../support/deadline.ts'
import { startReceiver } from '../../support/robots/receiver.ts'
import { hasService, ownMariadb, ownPostgres } from '../../support/services/own.ts'

const program = fileURLToPath(new URL('../fleet/node-process.ts', import.meta.url))
const namespace = 'alerts'
const storeMs = 1_500
const allowPrivate = ['127.0.0.0/8']
/** Every rule is late at once, except the store's: a busy machine is slow anyway. */
const settings = {
  alerts: { everyMs: 250, behindMs: 1, noWorkerMs: 1, scheduleMs: 1, lockMs: 1, storeMs },
  dispatch: { heartbeatMs: 500, suspectAfterMs: 5_000, goneAfterMs: 10_000, closedGraceMs: 100 },
  monitor: { allowPrivate },
}

/** Faults of the store, as the servers see it. */
interface Faults {
  isSlow: boolean
  firesNothing: boolean
}

interface Stage {
  readonly faults: Faults
  readonly box: Box
  readonly serverUrl: string
  readonly cleanUp: AsyncDisposableStack
}

/** Makes a problem; the function that it returns ends the problem. */
type Problem = (stage: Stage) => Promise<() => Promise<unknown>>

const problems: Readonly<
  Record<keyof typeof alertRules, { readonly what: string; readonly begin: Problem }>
> = {
  'dead-jobs': {
    what: 'deadly',
    async begin({ box: { jobs } }) {
      const { id } = await jobs.add('mail', null, { queue: 'deadly', maxAttempts: 1 })
      const [job] = await jobs.claim({ queues: ['deadly'] })
      await jobs.nack(job!, { error: 'no' })
      return () => jobs.remove([id])
    },
  },
  'queue-behind': {
    what: 'slow',
    async begin({ box: { jobs } }) {
      const [running, ready] = await jobs.addMany([1, 2].map(() => ({ kind: 'mail', queue: 'slow' })))
      // One runs, so there is a worker.
      await jobs.claim({ queues: ['slow'], leaseMs: '10m' })
      return () => jobs.remove([ready!.id, running!.id])
    },
  },
  'no-worker': {
    what: 'untaken',
    async begin({ box: { jobs } }) {
      await jobs.add('mail', null, { queue: 'untaken' })
      return () => jobs.worker({ queues: ['untaken'], handlers: { mail: () => 'sent' } }).start()
    },
  },
  'schedule-missed': {
    what: 'report',
    async begin({ box: { jobs }, faults }) {
      faults.firesNothing = true
      const job = { kind: 'mail', queue: 'untaken' }
      await jobs.schedules.set('report', { everyMs: '1h', startAt: Date.now() + 500, job })
      return async () => {
        faults.firesNothing = false
      }
    },
  },
  'lock-waited': {
    what: 'deploy eu',
    async begin({ box: { locks } }) {
      const held = await locks.hold('deploy', 'eu', { node: 'first' })
      const second = locks.hold('deploy', 'eu', { node: 'second' })
      // It is waited for only when the problem ends.
      second.catch(() => undefined)
      return async () => {
        await held.release()
        await (await second).release()
      }
    },
  },
  'node-lost': {
    what: 'n1',
    async begin({ serverUrl, cleanUp }) {
      const node = cleanUp.adopt(await startNode(serverUrl), kill)
      await kill(node)
      return async () => void cleanUp.adopt(await startNode(serverUrl), kill)
    },
  },
  'channel-failing': {
    what: 'broken',
    async begin({ box: { monitor }, cleanUp }) {
      const receiver = cleanUp.adopt(await startReceiver({ secret: 'another-secret-0123456789' }), (one) =>
        one.close(),
      )
      const channel = { type: 'webhook' as const, url: receiver.url, secret: 'not-its-secret-0123456789' }
      const match = { source: 'shop' }
      const { id } = await monitor.subscribe({ name: 'broken', channel, match, digestMs: 0, notifyNew: true })
      await monitor.report({
        taskId: 't',
        source: 'shop',
        observedAt: 1,
        subjects: [{ subject: 's', state: 1 }],
      })
      return () => monitor.unsubscribe(id)
    },
  },
  'store-slow': {
    what: 'store',
    async begin({ faults }) {
      faults.isSlow = true
      return async () => {
        faults.isSlow = false
      }
    },
  },
}
const subjects = Object.entries(problems).map(([rule, { what }]) => `${rule} ${what}`)

for (const { name, own, isThere } of [
  { name: 'sqlite', own: ownSqlite, isThere: true },
  { name: 'postgres', own: ownPostgres, isThere: hasService('postgres') },
  { name: 'mariadb', own: ownMariadb, isThere: hasService('mariadb') },
]) {
  test.skipIf(!isThere)(
    `${name}: a problem of each rule is notified once when it begins, and once when it is over`,
    { timeout: 180_000, concurrent: true },
    async () => {
      const faults: Faults = { isSlow: false, firesNothing: false }
      await using cleanUp = new AsyncDisposableStack()
      const database = cleanUp.use(await own())
      const box = cleanUp.use(await open(database.url, { namespace, migrate: true, allowPrivate }))
      const receiver = cleanUp.adopt(await startReceiver(), (one) => one.close())
      const servers = [1, 2].map(() =>
        cleanUp.use(createServer({ box: { backend: withFaults(box.backend, faults), settings }, port: 0 })),
      )
      const [{ url: serverUrl }] = (await Promise.all(servers.map((server) => server.listen()))) as [
        { url: string },
      ]
      const client = cleanUp.adopt(createClient(serverUrl, { namespace }), (one) => one.close())
      const channel = { type: 'webhook' as const, url: receiver.url, secret: receiver.secret }
      await client.call(addAlerts, { body: { name: 'on-call', channel, digestMs: 0, windowMs: 0 } })
      /** What was sent: how often each alert began, and how often it was over. */
      const sent = (word: string) =>
        subjects.map(
          (subject) => receiver.messages.filter(({ text }) => text.startsWith(`${word}: ${subject}`)).length,
        )
      const fires = async () =>
        (await client.call(listAlerts)).firing.map(({ subject }) => subject).toSorted()
      const each = (count: number) => subjects.map(() => count)

      const ends: (() => Promise<unknown>)[] = []
      for (const { begin } of Object.values(problems))
        ends.push(await begin({ box, serverUrl, cleanUp, faults }))
      await until('each alert is sent', async () => sent('Alert').every((count) => count > 0))
      assert.deepEqual(await fires(), subjects.toSorted())
      // Both servers look several times.
      await sleep(2 * storeMs + 1_000)
      assert.deepEqual([sent('Alert'), sent('Over')], [each(1), each(0)], describe())

      for (const end of ends) await end()
      await until('each alert is over', async () => sent('Over').every((count) => count > 0))
      await sleep(1_000)
      assert.deepEqual([sent('Alert'), sent('Over'), await fires()], [each(1), each(1), []], describe())

      function describe(): string {
        return `${subjects.join(', ')}\n${receiver.messages.map(({ text }) => text).join('\n')}`
      }
    },
  )
}

/** The store with its faults, as servers see it. */
function withFaults<Backend extends Served>(backend: Backend, faults: Faults): Backend {
  return {
    ...backend,
    async time() {
      if (faults.isSlow) await sleep(storeMs + 100)
      return backend.time()
    },
    within(name: string) {
      const stores = backend.within(name)
      const fire: typeof stores.schedules.fire = async (fired) => {
        if (faults.firesNothing) throw new Error('Nothing fires.')
        return stores.schedules.fire(fired)
      }
      return { ...stores, schedules: { ...stores.schedules, fire } }
    },
  }
}

async function startNode(url: string): Promise<ChildProcess> {
  const node = spawn(process.execPath, [program, url, namespace, 'n1'], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  await once(node.stdout!, 'data')
  return node
}

async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  child.kill('SIGKILL')
  await once(child, 'exit')
}

async function until(what: string, isSo: () => Promise<boolean>): Promise<void> {
  const look = async () => {
    while (!(await isSo())) await sleep(50)
  }
  await within(60_000, what, look())
}
