import assert from 'node:assert/strict'
import { test } from 'vitest'
import { openMemory } from '../../storage/memory/index.ts'
import type { FeedReader, ServedStores } from './call.ts'
import { Spaces } from './namespace-services.ts'
import { createHintsFeed } from './streams/watch-feeds.ts'

/** Spaces over a store in memory, and who listens to its notifiers. */
async function opened(max: number) {
  const memory = await openMemory({ namespace: 'default', migrate: true })
  const made: string[] = []
  let listeners = 0
  const within = (namespace: string): ServedStores => {
    made.push(namespace)
    const stores = memory.within(namespace)
    const notifier = {
      wake: (topic: string) => stores.notifier.wake(topic),
      listen(topics: readonly string[], heard: () => void) {
        listeners++
        const stop = stores.notifier.listen(topics, heard)
        return () => {
          listeners--
          stop()
        }
      },
    }
    return { ...stores, notifier }
  }
  return { spaces: new Spaces({ within }, { max }), made, listeners: () => listeners, memory }
}

const deaf: FeedReader = { send: () => {}, fail: () => {} }
const never = new AbortController().signal

test('all callers of a namespace share its services, created for the first one', async () => {
  const { spaces, made } = await opened(10)
  const [one, other] = [spaces.enter('a'), spaces.enter('a')]
  assert.equal(one, other)
  spaces.leave(one)
  spaces.leave(other)
  assert.equal(spaces.enter('a'), one)
  assert.deepEqual(made, ['a'])
})

test('beyond the limit the longest unused namespace is forgotten, and none in use', async () => {
  const { spaces, made } = await opened(3)
  const kept = spaces.enter('in use')
  for (const namespace of ['a', 'b']) spaces.leave(spaces.enter(namespace))
  spaces.leave(spaces.enter('a'))
  spaces.leave(spaces.enter('c'))
  assert.deepEqual(
    Array.from(spaces, ({ namespace }) => namespace),
    ['in use', 'a', 'c'],
  )
  for (let n = 0; n < 1_000; n++) spaces.leave(spaces.enter(`n${n}`))
  assert.equal(spaces.size, 3)
  assert.equal(spaces.enter('in use'), kept)
  assert.equal(made.filter((namespace) => namespace === 'in use').length, 1)
})

test('the limit may be exceeded while all namespaces are in use, and unused ones are then forgotten', async () => {
  const { spaces } = await opened(2)
  const entered = ['a', 'b', 'c', 'd'].map((namespace) => spaces.enter(namespace))
  assert.equal(spaces.size, 4)
  for (const space of entered) spaces.leave(space)
  assert.equal(spaces.size, 2)
})

test("a reader of a stream keeps its namespace's services, and one opened late restores them", async () => {
  const { spaces, listeners } = await opened(1)
  const space = spaces.enter('a')
  const feeds = [space.queuesFeed, space.feed(({ stores }) => createHintsFeed(stores.notifier, ['mail']))]
  spaces.leave(space)
  spaces.leave(spaces.enter('b'))
  const close = feeds.map((feed) => feed.open(undefined, deaf))
  spaces.leave(spaces.enter('c'))
  assert.ok(Array.from(spaces, ({ namespace }) => namespace).includes('a'))
  for (const leave of close) {
    leave()
    leave()
  }
  spaces.leave(spaces.enter('d'))
  assert.deepEqual(
    Array.from(spaces, ({ namespace }) => namespace),
    ['d'],
  )
  await spaces[Symbol.asyncDispose]()
  assert.equal(listeners(), 0)
})

test("closing a namespace's services ends every wait for a job, also of later callers", async () => {
  const { spaces } = await opened(10)
  const wait = (namespace: string) =>
    spaces
      .enter(namespace)
      .longPollClaims.wait({ queues: ['default'], kinds: undefined }, 60_000, never, async () => [])
  const waiting = wait('a')
  spaces.endWaits()
  assert.deepEqual(await waiting, [])
  assert.deepEqual(await Promise.all([wait('a'), wait('b')]), [[], []])
})
