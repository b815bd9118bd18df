/** Problems of the fleet become notifications: sent once by any number of servers, ended when they end, explained. */
import assert from 'node:assert/strict'
import { createClient } from 'signalbox/client'
import { createServer } from 'signalbox/server'
import { describe, test } from 'vitest'
import { addAlerts, listAlerts, removeAlerts, testAlerts } from '../../../src/http/contract/index.ts'
import { createJobs } from '../../../src/jobs/index.ts'
import { aNamespace, type Candidate, candidates } from '../../conformance/candidates.ts'
import { within } from '../../support/deadline.ts'
import { startReceiver } from '../../support/robots/receiver.ts'

const secret = 'receiver-secret-9876543210'

async function aFleet(candidate: Candidate, alerts: { readonly noWorkerMs?: number } = {}) {
  const namespace = aNamespace()
  const backend = await candidate.open({ namespace })
  const other = candidate.isShared ? await candidate.open({ namespace }) : backend
  const settings = { alerts: { everyMs: 200, ...alerts }, monitor: { allowPrivate: ['127.0.0.0/8'] } }
  const servers = [backend, other].map((store) =>
    createServer({ box: { backend: store, settings }, port: 0 }),
  )
  const [first] = await Promise.all(servers.map((server) => server.listen()))
  const client = createClient(first!.url, { namespace })
  const receiver = await startReceiver({ secret })
  const jobs = createJobs({ store: backend.jobs, notifier: backend.notifier })
  return {
    client,
    receiver,
    jobs,
    workers: backend.workers,
    channel: { type: 'webhook' as const, url: receiver.url, secret },
    /** Adds a job that dies. */
    async kill() {
      await jobs.add('mail', null, { queue: 'q', maxAttempts: 1 })
      const [job] = await jobs.claim({ queues: ['q'] })
      await jobs.nack(job!, { error: 'no' })
      return job!.id
    },
    remove: (id: string) => jobs.remove([id]),
    async [Symbol.asyncDispose]() {
      client.close()
      await Promise.all(servers.map((server) => server.close({ graceMs: 500 })))
      await receiver.close()
      await backend.close()
      if (other !== backend) await other.close()
    },
  }
}

async function until(what: string, isSo: () => Promise<boolean>): Promise<void> {
  const look = async () => {
    while (!(await isSo())) await new Promise((resolve) => setTimeout(resolve, 50))
  }
  await within(30_000, what, look())
}

for (const candidate of candidates()) {
  describe(candidate.title, { timeout: 120_000, concurrent: true }, () => {
    test('alerts are checked only with a channel, and sent once when they fire and once when they end', {
      concurrent: false,
    }, async () => {
      await using fleet = await aFleet(candidate)
      const { client, receiver, channel } = fleet
      const deadId = await fleet.kill()
      assert.deepEqual(await client.call(listAlerts), { firing: [], subscriptions: [] })
      const added = await client.call(addAlerts, {
        body: { name: 'on-call', channel, digestMs: 0, windowMs: 0 },
      })
      await receiver.waitFor(1, 30_000)
      const { firing, subscriptions } = await client.call(listAlerts)
      assert.deepEqual(
        firing.map(({ subject, says }) => [subject, says]),
        [['dead-jobs q', '1 dead.']],
      )
      assert.deepEqual(
        subscriptions.map(({ id }) => id),
        [added.id],
      )
      // More of the same is no news, whichever server looks.
      const another = await fleet.kill()
      await new Promise((resolve) => setTimeout(resolve, 1_000))
      assert.equal(receiver.messages.length, 1)
      await fleet.remove(deadId)
      await fleet.remove(another)
      await receiver.waitFor(2, 30_000)
      assert.deepEqual((await client.call(listAlerts)).firing, [])
      assert.match(JSON.stringify(receiver.messages[0]!.body), /dead-jobs q.*firing/)
      assert.match(JSON.stringify(receiver.messages[1]!.body), /dead-jobs q.*over/)
      assert.equal(receiver.messages.length, 2)
    })

    test('an alert can be silenced and explained like any change, and its subscription can end', {
      concurrent: false,
    }, async () => {
      await using fleet = await aFleet(candidate)
      const { client, receiver, channel } = fleet
      await client.monitor.silence({ match: { subject: { prefix: 'dead-jobs ' } }, forMs: '1h' })
      const { id } = await client.call(addAlerts, { body: { name: 'on-call', channel, digestMs: 0 } })
      await fleet.kill()
      await until('the alert fires', async () => (await client.call(listAlerts)).firing.length === 1)
      const { decisions } = await client.monitor.explain({ source: 'signalbox', subject: 'dead-jobs q' })
      assert.deepEqual(
        decisions[0]!.verdicts.map(({ reason }) => reason),
        ['silenced'],
      )
      assert.deepEqual(await client.call(testAlerts), { notified: 1 })
      await receiver.waitFor(1, 30_000)
      assert.match(JSON.stringify(receiver.messages[0]!.body), /test/)
      await client.call(removeAlerts, { params: { id } })
      await assert.rejects(client.call(removeAlerts, { params: { id } }), { code: 'not_found' })
      assert.deepEqual(await client.call(testAlerts), { notified: 0 })
    })

    test('a queue whose workers are quiet fires the alert for a queue without workers', {
      concurrent: false,
    }, async () => {
      await using fleet = await aFleet(candidate, { noWorkerMs: 1 })
      const { client, channel, jobs, workers } = fleet
      const worker = { id: 'w', session: 's', mode: 'running', running: [], runningCount: 0 } as const
      const facts = { workerId: 'w', boot: 'b', via: 'library', host: null, pid: null, ageMs: 0 } as const
      const about = { queues: ['r'], kinds: null, schemas: {}, concurrency: 1, release: null, version: null }
      await workers.join([{ ...worker, ...facts, ...about }], 300_000)
      await jobs.add('mail', null, { queue: 'r' })
      await fleet.kill()
      await client.call(addAlerts, { body: { name: 'on-call', channel, digestMs: 0 } })
      const fires = async (subject: string) =>
        (await client.call(listAlerts)).firing.some((alert) => alert.subject === subject)
      await until('a check', () => fires('dead-jobs q'))
      assert.equal(await fires('no-worker r'), false)
      await workers.renew([{ ...worker, mode: 'quiet' }], 300_000)
      await until('the queue has no worker', () => fires('no-worker r'))
      await workers.renew([worker], 300_000)
      await until('it has one again', async () => !(await fires('no-worker r')))
    })

    test('a subscription to one rule gets no alerts of other rules', { concurrent: false }, async () => {
      await using fleet = await aFleet(candidate)
      const { client, channel } = fleet
      const body = { name: 'slow', channel, rule: 'store-slow' as const }
      assert.deepEqual((await client.call(addAlerts, { body })).match, {
        source: 'signalbox',
        subject: { prefix: 'store-slow ' },
      })
      assert.deepEqual(await client.call(testAlerts), { notified: 0 })
      const unknown = { ...body, rule: 'luck' as 'store-slow' }
      await assert.rejects(client.call(addAlerts, { body: unknown }), { code: 'invalid_argument' })
    })
  })
}
