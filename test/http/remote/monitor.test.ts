import assert from 'node:assert/strict'
import { type Box, open, type RemoteBox } from 'signalbox'
import { test } from 'vitest'
import { startReceiver } from '../../support/robots/index.ts'
import { serving } from '../server/stage.ts'

/** The monitor's verbs through a server: as in process, but that the server sends. */

type Rooms = Pick<Box, 'monitor'> | Pick<RemoteBox, 'monitor'>
const slot = { source: 's', timeSlot: 't' }
const channel = { type: 'webhook' as const, url: 'https://hooks.example.com/x', secret: 'a-secret-of-mine' }
const at = Date.UTC(2026, 0, 1)

/** What every verb answers, in order; ids and instants aside. */
async function story({ monitor }: Rooms): Promise<readonly unknown[]> {
  const answers: unknown[] = []
  const note = (answer: unknown) => void answers.push(answer)
  const report = (taskId: string, state: unknown, observedAt: number | Date, ignore?: readonly string[]) =>
    monitor.report({ taskId, ...slot, observedAt, venues: [{ venueId: 'v', state }], ignore })
  // A digest that waits for an hour is not sent here.
  const made = await monitor.subscribe({ name: 'n', channel, digestMs: '1h', match: { source: ['s'] } })
  const { id: _, createdAt, ...shown } = made
  note([shown, typeof createdAt])
  note((await monitor.subscriptions()).map(({ name }) => name))
  note(await report('1', { free: 1, seenAt: 1 }, new Date(at)))
  note(await report('1', { free: 1, seenAt: 1 }, new Date(at)))
  note(await report('2', { free: 1, seenAt: 2 }, at + 1, ['seenAt']))
  note(await report('3', { free: 2 }, at + 2))
  note(await report('4', { free: 3 }, at + 1))
  const mixed = [
    { venueId: 'date', state: new Date(0) },
    { venueId: 'big', state: 'x'.repeat(300_000) },
    { venueId: 'twice', state: 1 },
    { venueId: 'twice', state: Number.NaN },
    { venueId: 'good', state: 1 },
  ]
  const { failed } = await monitor.report({ taskId: 'mixed', ...slot, observedAt: at, venues: mixed })
  note(failed.map(({ venueId, error }) => [venueId, error]))
  note((await monitor.subjects({ search: 'good' })).items.length)
  note(await monitor.report({ taskId: '', ...slot, observedAt: at, venues: [] }).catch(({ code }) => code))
  note(
    await monitor
      .subscribe({ name: 'n', channel: { type: 'pigeon' } as never })
      .catch(({ message }) => message),
  )
  const subjects = [
    { subject: 'v', state: 1 },
    { subject: 'date', state: new Date(0) },
  ]
  note(await monitor.report({ taskId: 'general', source: 's', observedAt: at, subjects }))
  note((await monitor.explain({ source: 's', subject: 'v' })).present?.state)
  note(await monitor.decisions({ source: 's', subject: 'v' }).then(({ items }) => items.length))
  const explained = await monitor.explain({ ...slot, venueId: 'v', limit: 10 })
  note([
    explained.present?.state,
    explained.decisions.map(({ reason, verdicts }) => [reason, verdicts.length]),
  ])
  note(explained.windows.map(({ status, isPresentState }) => [status, isPresentState]))
  note((await monitor.decisions({ reason: 'stale', cursor: null })).items.map(({ to }) => to))
  const { items } = await monitor.notifications({ ...slot, venueId: 'v', status: 'pending' })
  note(items.map(({ from, to, subscription, channel }) => [from, to, subscription, channel]))
  note(await monitor.replay(items[0]!.id).catch(({ code }) => code))
  note(await monitor.replay('none').catch(({ code }) => code))
  note((await monitor.subjects({ search: 'v' })).items.map(({ venueId, state }) => [venueId, state]))
  const silence = await monitor.silence({ forMs: '1h', startsAt: new Date(Date.now() - 1_000) })
  note((await monitor.silences()).map(({ comment, match }) => [comment, match]))
  note(await report('5', { free: 9 }, at + 3))
  note([await monitor.unsilence(silence.id), await monitor.unsilence(silence.id)])
  note([await monitor.unsubscribe(made.id), await monitor.unsubscribe(made.id)])
  note(await monitor.test({ type: 'slack' as const, url: 'https://10.0.0.1/x' }))
  return answers
}

test('a monitor behind a server answers every method as one on the store itself does', async () => {
  await using box = await open('memory:')
  await using served = await serving()
  await using remote = await open(served.url as 'http://x')
  const [here, there] = [await story(box), await story(remote)]
  assert.deepEqual(there, here)
})

test('a server sends the notifications of reports that a remote box makes', async () => {
  await using receiver = await startReceiver()
  await using served = await serving({}, 'memory:', { allowPrivate: ['127.0.0.0/8'] })
  await using remote = await open(served.url as 'http://x', { namespace: 'shop' })
  const own = { type: 'webhook' as const, url: receiver.url, secret: receiver.secret }
  assert.equal((await remote.monitor.test(own)).ok, true)
  await remote.monitor.subscribe({ name: 'n', channel: own, notifyNew: true })
  const many = Array.from({ length: 10_000 }, (_, index) => ({ venueId: `v${index}`, state: index }))
  // A thousand of them would be a thousand messages: most are known before any notification.
  await remote.monitor.silence({ match: { venueId: { prefix: 'v' } }, forMs: '1h' })
  const answer = await remote.monitor.report({ taskId: '1', ...slot, observedAt: at, venues: many })
  assert.deepEqual([answer.status, answer.failed, answer.notified], ['processed', [], 0])
  await remote.monitor.report({
    taskId: '2',
    ...slot,
    observedAt: at,
    venues: [{ venueId: 'north', state: 1 }],
  })
  await receiver.waitFor(2)
  assert.equal(receiver.messages[1]!.body.data.changes[0].venueId, 'north')
  const { items } = await served.box.monitor.subjects()
  assert.deepEqual(items, [], 'namespaces are apart')
}, 60_000)
