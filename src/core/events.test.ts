import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createEvents } from './events.ts'

interface Sample {
  added: { id: number }
  ended: string
}

test('listeners are called in order of registration, with the event of their name', () => {
  const events = createEvents<Sample>()
  const told: string[] = []
  events.on('added', ({ id }) => told.push(`first ${id}`))
  events.on('added', ({ id }) => told.push(`second ${id}`))
  events.on('ended', (why) => told.push(why))
  events.emit('added', { id: 7 })
  assert.deepEqual(told, ['first 7', 'second 7'])
})

test('a listener that throws or rejects is reported and does not affect the others', async () => {
  const reported: unknown[] = []
  const { promise, resolve } = Promise.withResolvers<void>()
  const events = createEvents<Sample>({
    onListenerError: (error, name) => {
      reported.push([name, error])
      if (reported.length === 3) resolve()
    },
  })
  let told = 0
  events.on('ended', () => {
    throw new Error('one')
  })
  events.on('ended', async () => {
    throw undefined
  })
  events.on('ended', () => {
    throw undefined
  })
  events.on('ended', () => told++)
  events.emit('ended', 'x')
  assert.equal(told, 1)
  await promise
  assert.deepEqual(reported, [
    ['ended', new Error('one')],
    ['ended', undefined],
    ['ended', undefined],
  ])
})

test('an error hook that throws does not reach the emitter', () => {
  const print = console.error
  const printed: unknown[] = []
  console.error = (...args) => printed.push(args)
  try {
    const events = createEvents<Sample>({
      onListenerError: () => {
        throw new Error('hook')
      },
    })
    events.on('ended', () => {
      throw new Error('listener')
    })
    events.emit('ended', 'x')
  } finally {
    console.error = print
  }
  assert.equal(printed.length, 1)
})

test('a removed listener is not called any more, also when it is removed during the event', () => {
  const events = createEvents<Sample>()
  const told: string[] = []
  events.on('ended', () => offSecond())
  const offSecond = events.on('ended', () => told.push('second'))
  const offThird = events.on('ended', () => told.push('third'))
  events.emit('ended', 'x')
  assert.deepEqual(told, ['third'])
  offThird()
  offThird()
  assert.equal(events.listenerCount('ended'), 1)
})

test('a listener added during an event gets the next one', () => {
  const events = createEvents<Sample>()
  const told: string[] = []
  events.on('ended', (why) => {
    if (why === 'first') events.on('ended', (later) => told.push(later))
  })
  events.emit('ended', 'first')
  assert.deepEqual(told, [])
  events.emit('ended', 'second')
  assert.deepEqual(told, ['second'])
})

test('registering one function twice makes two listeners, and removing one leaves the other', () => {
  const events = createEvents<Sample>()
  let told = 0
  const listener = () => told++
  const off = events.on('ended', listener)
  events.on('ended', listener)
  off()
  off()
  events.emit('ended', 'x')
  assert.equal(told, 1)
})

test('waiting for the next event leaves nothing behind, resolved or aborted', async () => {
  const events = createEvents<Sample>()
  const next = events.once('added')
  events.emit('added', { id: 1 })
  events.emit('added', { id: 2 })
  assert.deepEqual(await next, { id: 1 })

  const controller = new AbortController()
  const never = events.once('added', { signal: controller.signal })
  assert.equal(events.listenerCount('added'), 1)
  controller.abort(new Error('enough'))
  await assert.rejects(never, /enough/)
  assert.equal(events.listenerCount('added'), 0)
  await assert.rejects(events.once('added', { signal: controller.signal }), /enough/)
  assert.equal(events.listenerCount('added'), 0)
})

test('event names from a prototype are names like any other', () => {
  const events = createEvents<Record<string, number>>()
  let told = 0
  events.emit('constructor', 1)
  events.on('__proto__', () => told++)
  events.emit('__proto__', 1)
  assert.equal(told, 1)
})
