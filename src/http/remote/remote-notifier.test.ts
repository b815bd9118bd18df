import assert from 'node:assert/strict'
import { test } from 'vitest'
import { within } from '../../../test/support/deadline.ts'
import { SignalboxError } from '../../core/errors.ts'
import { cancelTopic, queueTopic } from '../../jobs/index.ts'
import type { Client } from '../client/index.ts'
import { RemoteNotifier } from './remote-notifier.ts'

type Options = Parameters<Client['stream']>[1] & { readonly query?: { readonly queues?: string } }

/** A client whose streams are opened and spoken on by the test. */
function fakeClient() {
  const streams: (Options & { fail(error: unknown): void })[] = []
  const client = {
    stream(_route: unknown, options: Options) {
      const { promise, resolve, reject } = Promise.withResolvers<void>()
      options.signal?.addEventListener('abort', () => resolve())
      streams.push({ ...options, fail: reject })
      return promise
    },
  } as unknown as Pick<Client, 'stream'>
  const opened = async (count: number) => {
    const look = async () => {
      while (streams.length < count) await new Promise((resolve) => setTimeout(resolve, 2))
    }
    await within(5_000, `stream ${count}`, look())
    return streams[count - 1]!
  }
  return { client, streams, opened }
}

test('all listeners share one stream, of all their queues', async () => {
  const { client, streams, opened } = fakeClient()
  const notifier = new RemoteNotifier(client)
  notifier.listen([queueTopic('mail'), queueTopic('a,b c')], () => undefined)
  notifier.listen([queueTopic('mail'), queueTopic('äpfel')], () => undefined)
  notifier.listen([cancelTopic], () => undefined)
  const { query } = await opened(1)
  assert.deepEqual(query?.queues?.split(',').map(decodeURIComponent), ['a,b c', 'mail', 'äpfel'])
  await new Promise((resolve) => setTimeout(resolve, 60))
  assert.equal(streams.length, 1)
  notifier.close()
})

test('a listener is called at each reconnect, and for its hints', async () => {
  const { client, opened } = fakeClient()
  const notifier = new RemoteNotifier(client)
  const heard: string[] = []
  notifier.listen([queueTopic('mail')], () => heard.push('mail'))
  notifier.listen([queueTopic('sms')], () => heard.push('sms'))
  notifier.listen([cancelTopic], () => heard.push('cancel'))
  const stream = await opened(1)
  const say = (type: string, data: unknown) => stream.onEvent({ id: '', type, data })
  const hear = (act: () => void) => {
    heard.length = 0
    act()
    return heard.join(' ')
  }
  assert.equal(
    hear(() => stream.onOpen!()),
    'mail sms cancel',
  )
  assert.equal(
    hear(() => stream.onOpen!()),
    'mail sms cancel',
  )
  assert.equal(
    hear(() => say('ready', { queue: 'sms' })),
    'sms',
  )
  assert.equal(
    hear(() => say('cancel', {})),
    'cancel',
  )
  assert.equal(
    hear(() => notifier.wake(queueTopic('mail'))),
    'mail',
  )
  for (const [type, data] of [
    ['ready', { queue: 'other' }],
    ['ready', null],
    ['ready', { queue: 5 }],
    ['later', { queue: 'mail' }],
  ] as const)
    assert.equal(
      hear(() => say(type, data)),
      '',
    )
  notifier.close()
})

test('a change of queues replaces the stream; without listeners there is none', async () => {
  const { client, streams, opened } = fakeClient()
  const notifier = new RemoteNotifier(client)
  const heard: string[] = []
  const stop = notifier.listen([queueTopic('mail')], () => heard.push('mail'))
  const first = await opened(1)
  const stopOther = notifier.listen([queueTopic('sms')], () => heard.push('sms'))
  const second = await opened(2)
  assert.deepEqual([first.signal?.aborted, second.signal?.aborted], [true, false])
  // The opening of the old stream wakes no listener.
  first.onOpen!()
  assert.deepEqual(heard, [])
  stop()
  const third = await opened(3)
  assert.equal(third.query?.queues, 'sms')
  stopOther()
  stopOther()
  await new Promise((resolve) => setTimeout(resolve, 60))
  assert.deepEqual([third.signal?.aborted, streams.length], [true, 3])
  notifier.close()
})

test('a refused stream harms no listener: local wake-ups still reach it', async () => {
  const { client, opened, streams } = fakeClient()
  const notifier = new RemoteNotifier(client)
  let heard = 0
  notifier.listen([queueTopic('mail')], () => heard++)
  const stream = await opened(1)
  stream.fail(new SignalboxError('unauthorized', 'no'))
  await new Promise((resolve) => setTimeout(resolve, 30))
  notifier.wake(queueTopic('mail'))
  assert.deepEqual([heard, streams.length], [1, 1])
  notifier.close()
})

test('with more queues than one request can name, the rest is left to polling', async () => {
  const { client, opened } = fakeClient()
  const notifier = new RemoteNotifier(client)
  const queues = Array.from({ length: 100 }, (_, n) => queueTopic(`${'ä'.repeat(180)}${n}`))
  notifier.listen(queues, () => undefined)
  const { query } = await opened(1)
  assert.ok(query!.queues!.length <= 8_192)
  assert.ok(query!.queues!.split(',').every((name) => decodeURIComponent(name).startsWith('ää')))
  notifier.close()
})

test('a closed notifier ends its stream and refuses listeners', async () => {
  const { client, opened } = fakeClient()
  const notifier = new RemoteNotifier(client)
  notifier.listen([queueTopic('mail')], () => assert.fail('it was closed'))
  const stream = await opened(1)
  notifier.close()
  assert.equal(stream.signal?.aborted, true)
  notifier.wake(queueTopic('mail'))
  assert.throws(() => notifier.listen([queueTopic('mail')], () => undefined), { code: 'closed' })
})
