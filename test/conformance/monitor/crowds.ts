/** Many at once: in any order, one writer writes each version of a subject, and one sender has each channel. */
import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { Candidate } from '../candidates.ts'
import {
  aBatch,
  aJob,
  aNotification,
  aSubject,
  aSubscription,
  aWrite,
  hash,
  known,
  longMs,
} from './making.ts'

const crowd = Array.from({ length: 8 }, (_, index) => index)

export function crowdsContract({ open }: Candidate): void {
  test('of eight writers of one subject, exactly one writes each version', async () => {
    await using backend = await open()
    const { monitor, jobs } = backend
    for (let version = 0; version < 5; version++) {
      const batches = crowd.map((one) =>
        aBatch({
          subjects: [aWrite({ version, state: `"${version}.${one}"` })],
          notifications: [aNotification({ to: `"${version}.${one}"` })],
          jobs: [aJob({ queue: 'signalbox.notify' })],
        }),
      )
      const answers = await Promise.all(batches.map((batch) => monitor.write(batch)))
      const written = batches.filter((_, index) => answers[index]!.status === 'written')
      assert.equal(written.length, 1)
      assert.equal(answers.filter(({ status }) => status === 'overtaken').length, 7)
      const subject = (await known(backend, aSubject()))!
      assert.equal(subject.version, version + 1)
      assert.equal(subject.state, written[0]!.subjects[0]!.state)
      assert.ok(await jobs.find(written[0]!.jobs[0]!.id))
    }
    assert.equal((await monitor.notifications({ limit: 100 })).length, 5)
    assert.equal((await jobs.list({ queue: 'signalbox.notify', limit: 100 })).length, 5)
  })

  test('batches that share subjects in any order are written or outdated, never stuck or half written', async () => {
    await using backend = await open()
    const courts = crowd.map((one) => aSubject(`court-${one}`))
    const batches = crowd.map((one) => {
      const order = one % 2 === 0 ? courts : courts.toReversed()
      return aBatch({ subjects: order.map((court) => aWrite({ ...court, state: `"${one}"` })) })
    })
    const answers = await Promise.all(batches.map((batch) => backend.monitor.write(batch)))
    assert.equal(answers.filter(({ status }) => status === 'written').length, 1)
    const winner = answers.findIndex(({ status }) => status === 'written')
    for (const court of courts) assert.equal((await known(backend, court))?.state, `"${winner}"`)
  })

  test('of eight batches that claim one event, exactly one is written', async () => {
    await using backend = await open()
    const events = [{ key: hash('event'), keepMs: longMs }]
    const answers = await Promise.all(
      crowd.map((one) =>
        backend.monitor.write(aBatch({ events, subjects: [aWrite(aSubject(`court-${one}`))] })),
      ),
    )
    assert.equal(answers.filter(({ status }) => status === 'written').length, 1)
    assert.equal(answers.filter(({ status }) => status === 'duplicate').length, 7)
    assert.equal((await backend.monitor.subjects({ limit: 10 })).length, 1)
  })

  test('of eight batches that notify a throttled subscription, only as many as it allows are written', async () => {
    await using backend = await open()
    const { monitor } = backend
    const subscription = aSubscription()
    await monitor.subscribe(subscription)
    const { revision } = await monitor.rules()
    const subscriptionId = subscription.id
    const throttles = [{ subscriptionId, perMs: longMs, most: 2 }]
    const batches = crowd.map((one) => {
      const court = aSubject(`court-${one}`)
      const notifications = [aNotification({ ...court, subscriptionId })]
      return aBatch({ revision, throttles, subjects: [aWrite(court)], notifications })
    })
    const answers = await Promise.all(batches.map((batch) => monitor.write(batch)))
    assert.equal(answers.filter(({ status }) => status === 'written').length, 3)
    assert.equal(answers.filter(({ status }) => status === 'overtaken').length, 5)
    assert.equal((await monitor.notifications({ limit: 100 })).length, 3)
    assert.equal((await monitor.subjects({ limit: 10 })).length, 3)
  })

  test('of eight senders exactly one takes a channel, and it learns that others came', async () => {
    await using backend = await open()
    const channel = hash('robot')
    const answers = await Promise.all(
      crowd.map((one) => backend.monitor.take({ channel, token: `t${one}`, leaseMs: longMs })),
    )
    assert.equal(answers.filter(({ taken }) => taken).length, 1)
    const token = `t${answers.findIndex(({ taken }) => taken)}`
    assert.equal(await backend.monitor.letGo({ channel, token }), 'wanted')
    assert.equal(await backend.monitor.letGo({ channel, token }), 'released')
  })
}
