import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { Sender, SendingCounts } from '../../../monitor/index.ts'
import type { Space, Spaces } from '../namespace-services.ts'
import { createSenders } from './namespace-workers.ts'

/** Senders that send nothing, and say when they begin and end. */
function stage() {
  const events: string[] = []
  const inside = new Map<string, number>()
  const waiting = new Set<() => void>()
  const broken = new Set<string>()
  let subscribed: readonly string[] = []
  const record = (what: string) => {
    events.push(what)
    for (const look of waiting) look()
  }
  const zero = {
    sent: 0,
    retried: 0,
    dead: 0,
    ambiguous: 0,
    held: 0,
    cancelled: 0,
    digested: 0,
    penalties: 0,
  }
  const senderOf = (namespace: string): Sender => {
    const counts: SendingCounts = { ...zero, sent: 1 }
    return {
      ready: true,
      counts: () => ({ slack: counts }),
      async start() {
        if (broken.has(namespace)) throw new Error(`no start in ${namespace}`)
        record(`begin ${namespace}`)
      },
      async stop() {
        record(`end ${namespace}`)
      },
      [Symbol.asyncDispose]: async () => {},
    }
  }
  const spaces = {
    enter(namespace: string) {
      inside.set(namespace, (inside.get(namespace) ?? 0) + 1)
      return { namespace, monitor: { sender: () => senderOf(namespace) } } as unknown as Space
    },
    leave({ namespace }: Space) {
      inside.set(namespace, inside.get(namespace)! - 1)
    },
  } as unknown as Spaces
  return {
    events,
    inside,
    broken,
    spaces,
    served: { subscribedNamespaces: async () => subscribed },
    subscribe(...namespaces: readonly string[]) {
      subscribed = namespaces
    },
    async heard(what: string, times = 1): Promise<void> {
      const { promise, resolve } = Promise.withResolvers<void>()
      const look = () => {
        if (events.filter((one) => one === what).length >= times) resolve()
      }
      waiting.add(look)
      look()
      await promise
      waiting.delete(look)
    },
  }
}

test('a namespace has a sender, and keeps its services, while it has subscriptions', async () => {
  const { served, spaces, subscribe, heard, inside } = stage()
  subscribe('a', 'b')
  await using senders = createSenders({ served, spaces })
  await heard('begin b')
  assert.deepEqual(
    [...inside],
    [
      ['a', 1],
      ['b', 1],
    ],
  )
  subscribe('b')
  await heard('end a')
  subscribe('a', 'b')
  await heard('begin a', 2)
  assert.deepEqual([...inside.values()], [1, 1])
  const counts = new Map(senders.counts().map(({ namespace, counts }) => [namespace, counts.slack?.sent]))
  assert.deepEqual(
    counts,
    new Map([
      ['a', 2],
      ['b', 1],
    ]),
    'what was counted before is not lost',
  )
})

test('a sender that cannot start delays no other, is reported, and is tried again', async () => {
  const { served, spaces, subscribe, heard, broken, inside } = stage()
  subscribe('bad', 'good')
  broken.add('bad')
  const trouble: string[] = []
  await using senders = createSenders({
    served,
    spaces,
    onLoopEvent: (loop, what) => trouble.push(`${loop} ${what}`),
  })
  await heard('begin good')
  await heard('end bad')
  broken.clear()
  await heard('begin bad')
  assert.deepEqual([inside.get('bad'), inside.get('good')], [1, 1])
  assert.equal(trouble[0], 'server.senders failed')
  assert.equal(senders.loop.name, 'server.senders')
})

test('all senders end with the server', async () => {
  const { served, spaces, subscribe, heard, inside, events } = stage()
  subscribe('a', 'b')
  {
    await using senders = createSenders({ served, spaces })
    assert.ok(senders.loop.healthy)
    await heard('begin b')
  }
  assert.deepEqual(events.slice(-2).sort(), ['end a', 'end b'])
  assert.deepEqual([...inside.values()], [0, 0])
})
