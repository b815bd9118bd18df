import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'vitest'
import { type Connection, createFile, openWriter } from '../connection/connection.ts'
import { WriteQueue, type WriteQueueOptions } from './write-queue.ts'

/** A write queue over a file with one table, and a neighbour: a second connection, as another process would have it. */
function setUp(options: Partial<WriteQueueOptions> = {}) {
  const folder = mkdtempSync(join(tmpdir(), 'signalbox-write-queue-'))
  const location = { path: join(folder, 'queue.db'), synchronous: 'normal' } as const
  createFile(location)
  const neighbour = openWriter(location)
  neighbour.run('CREATE TABLE item (name TEXT NOT NULL UNIQUE) STRICT')
  let opened = 0
  const writeQueue = new WriteQueue({
    open: () => {
      opened++
      return openWriter(location)
    },
    ...options,
  })
  return {
    writeQueue,
    neighbour,
    path: location.path,
    opened: () => opened,
    names: () =>
      neighbour.all<{ name: string }>('SELECT name FROM item ORDER BY rowid').map(({ name }) => name),
    async [Symbol.asyncDispose]() {
      if (neighbour.db.isTransaction) neighbour.rollback()
      await writeQueue.close()
      neighbour.close()
      rmSync(folder, { recursive: true })
    },
  }
}

const insert = (name: string) => (connection: Connection) => {
  connection.run('INSERT INTO item (name) VALUES (?1)', name)
  return name
}

function signalbox(code: string) {
  return { name: 'SignalboxError', code }
}

test('writes of one round share a commit and are answered in order, after it', async () => {
  let commits = 0
  await using set = setUp({ began: () => commits++ })
  const answered: string[] = []
  const writes = ['a', 'b', 'c'].map(async (name) => {
    answered.push(await set.writeQueue.write(insert(name)))
    assert.deepEqual(set.names(), ['a', 'b', 'c'], 'the commit was made before anybody was told')
  })
  await Promise.all(writes)
  assert.deepEqual(answered, ['a', 'b', 'c'])
  assert.equal(commits, 1)
})

test('a failed write is undone alone', async () => {
  await using set = setUp()
  const answers = await Promise.allSettled([
    set.writeQueue.write(insert('a')),
    set.writeQueue.write((connection) => {
      insert('b')(connection)
      throw new Error('no b')
    }),
    set.writeQueue.write(insert('a')),
    set.writeQueue.write(insert('c')),
  ])
  assert.deepEqual(
    answers.map(({ status }) => status),
    ['fulfilled', 'rejected', 'rejected', 'fulfilled'],
  )
  assert.deepEqual(set.names(), ['a', 'c'])
})

test('a failed write leaves nothing behind and does not affect later writes', async () => {
  await using set = setUp()
  await assert.rejects(
    set.writeQueue.write((connection) => {
      insert('a')(connection)
      throw new Error('no a')
    }),
    /no a/,
  )
  await set.writeQueue.write(insert('b'))
  assert.deepEqual(set.names(), ['b'])
})

test('turns run in the order of their requests, and renewals go first', async () => {
  await using set = setUp()
  const order: string[] = []
  const write = (name: string, urgent = false) =>
    set.writeQueue.write(() => void order.push(name), { urgent })
  const hold = (name: string) =>
    set.writeQueue.hold(async () => {
      order.push(`${name} in`)
      await new Promise((resolve) => setTimeout(resolve, 5))
      order.push(`${name} out`)
    })
  await Promise.all([write('a'), hold('h1'), write('b'), hold('h2'), write('c'), write('renewal', true)])
  assert.deepEqual(order, ['renewal', 'a', 'h1 in', 'h1 out', 'b', 'h2 in', 'h2 out', 'c'])
})

test('a renewal that comes while a hold runs has the next turn', async () => {
  await using set = setUp()
  const order: string[] = []
  const { promise: inside, resolve: enter } = Promise.withResolvers<void>()
  const { promise: free, resolve: leave } = Promise.withResolvers<void>()
  const held = set.writeQueue.hold(async () => {
    enter()
    await free
  })
  await inside
  const rest = [
    set.writeQueue.hold(async () => void order.push('hold')),
    set.writeQueue.write(() => void order.push('write')),
    set.writeQueue.write(() => void order.push('renewal'), { urgent: true }),
  ]
  leave()
  await Promise.all([held, ...rest])
  assert.deepEqual(order, ['renewal', 'hold', 'write'])
})

test('a hold that throws or is aborted while it waits lets the next one in', async () => {
  await using set = setUp()
  const leaving = new AbortController()
  const first = set.writeQueue.hold(async () => {
    leaving.abort(new Error('left'))
    throw new Error('broke')
  })
  const second = set.writeQueue.hold(async () => assert.fail('it left the line'), leaving.signal)
  const third = set.writeQueue.write(insert('a'))
  await assert.rejects(first, /broke/)
  await assert.rejects(second, /left/)
  await third
})

test('a signal that aborts inside a hold interrupts it, and has no later effect', async () => {
  await using set = setUp()
  const controller = new AbortController()
  const interrupted: unknown[] = []
  const { promise: free, resolve: leave } = Promise.withResolvers<void>()
  const { promise: inside, resolve: enter } = Promise.withResolvers<void>()
  const work = async () => {
    enter()
    await free
  }
  const held = set.writeQueue.hold(work, controller.signal, (reason) => interrupted.push(reason))
  const other = new AbortController()
  const done = set.writeQueue.hold(
    async () => 'done',
    other.signal,
    () => assert.fail('it is out already'),
  )
  await inside
  controller.abort('now')
  assert.deepEqual(interrupted, ['now'])
  leave()
  await held
  assert.equal(await done, 'done')
  other.abort()
})

test('holds follow each other without an event loop round in between, and still leave time for timers', async () => {
  await using set = setUp()
  let rounds = 0
  const count = () => {
    rounds++
    counting = setImmediate(count)
  }
  let counting = setImmediate(count)
  let left = 200
  let fired = Number.NaN
  setTimeout(() => {
    fired = left
  }, 1)
  const busy = async () => {
    const end = performance.now() + 0.2
    while (performance.now() < end);
    left--
  }
  await Promise.all(Array.from({ length: left }, () => set.writeQueue.hold(busy)))
  clearImmediate(counting)
  assert.ok(rounds < 100, `${rounds} rounds for 200 holds`)
  assert.ok(fired > 0, 'the timer fired between two holds')
})

test("waiting for another process's lock does not block the event loop", async () => {
  await using set = setUp()
  set.neighbour.begin()
  let rounds = 0
  const counting = setInterval(() => {
    if (++rounds === 20) set.neighbour.commit()
  }, 1)
  await set.writeQueue.write(insert('a'))
  clearInterval(counting)
  assert.deepEqual(set.names(), ['a'])
  assert.ok(rounds >= 20, `timers ran ${rounds} times meanwhile`)
})

test('a write past its deadline fails with store_busy and is not written later', async () => {
  await using set = setUp({ deadlineMs: 50 })
  set.neighbour.begin()
  await assert.rejects(set.writeQueue.write(insert('a')), signalbox('store_busy'))
  set.neighbour.commit()
  await set.writeQueue.write(insert('b'))
  assert.deepEqual(set.names(), ['b'])
})

test('the deadline also counts behind a hold that does not end', async () => {
  await using set = setUp({ deadlineMs: 50, holdDeadlineMs: 80 })
  const { promise: free, resolve: leave } = Promise.withResolvers<void>()
  const held = set.writeQueue.hold(() => free)
  await Promise.all([
    assert.rejects(set.writeQueue.write(insert('a')), signalbox('store_busy')),
    assert.rejects(
      set.writeQueue.hold(async () => {}),
      signalbox('store_busy'),
    ),
  ])
  leave()
  await held
  assert.deepEqual(set.names(), [])
})

test('a full disk gives store_unavailable, leaves nothing behind, and later writes work again', async () => {
  await using set = setUp()
  await set.writeQueue.write((connection) => connection.db.exec('PRAGMA max_page_count = 8'))
  const large = (name: string) => insert(name.repeat(100_000))
  const answers = await Promise.allSettled([
    set.writeQueue.write(large('a')),
    set.writeQueue.write(large('b')),
  ])
  for (const answer of answers) {
    assert.equal(answer.status, 'rejected')
    assert.deepEqual({ name: answer.reason.name, code: answer.reason.code }, signalbox('store_unavailable'))
  }
  assert.deepEqual(set.names(), [])
  await set.writeQueue.write((connection) => connection.db.exec('PRAGMA max_page_count = 1000000'))
  await set.writeQueue.write(insert('c'))
  assert.deepEqual(set.names(), ['c'])
})

test('a disk that fails during the commit gives store_unavailable, and the connection is reopened', async () => {
  await using set = setUp()
  const failed = set.writeQueue.write((connection) => {
    connection.commit = () => {
      throw Object.assign(new Error('disk I/O error'), { code: 'ERR_SQLITE_ERROR', errcode: 1034 })
    }
    insert('lost')(connection)
  })
  await assert.rejects(failed, signalbox('store_unavailable'))
  assert.equal(set.opened(), 1)
  await set.writeQueue.write(insert('a'))
  assert.equal(set.opened(), 2)
  assert.deepEqual(set.names(), ['a'])
})

test('closing writes waiting writes, refuses waiting holds and refuses later calls', async () => {
  const set = setUp()
  const entered = Promise.withResolvers<void>()
  const { closing } = set.writeQueue
  const inside = set.writeQueue.hold(async () => {
    entered.resolve()
    await new Promise((_, reject) => closing.addEventListener('abort', () => reject(closing.reason)))
  })
  await entered.promise
  const written = set.writeQueue.write(insert('a'))
  const waiting = set.writeQueue.hold(async () => assert.fail('it was turned away'))
  const refused = [assert.rejects(inside, signalbox('closed')), assert.rejects(waiting, signalbox('closed'))]
  await Promise.all([set.writeQueue.close(), ...refused])
  assert.equal(await written, 'a')
  await assert.rejects(set.writeQueue.write(insert('b')), signalbox('closed'))
  assert.deepEqual(set.names(), ['a'])
  await set[Symbol.asyncDispose]()
})

test('a stream of writes leaves time for timers', async () => {
  await using set = setUp()
  let fired = false
  setTimeout(() => {
    fired = true
  }, 5)
  let writes = 0
  while (!fired && writes < 100_000) {
    await set.writeQueue.write(() => {})
    writes++
  }
  assert.ok(fired, 'the timer had its turn')
})

test('long writes are spread over several commits, in order', async () => {
  let commits = 0
  await using set = setUp({ began: () => commits++ })
  const slow = (name: string) => (connection: Connection) => {
    const end = performance.now() + 15
    while (performance.now() < end);
    return insert(name)(connection)
  }
  const names = ['a', 'b', 'c', 'd', 'e']
  assert.deepEqual(await Promise.all(names.map((name) => set.writeQueue.write(slow(name)))), names)
  assert.deepEqual(set.names(), names)
  assert.ok(commits >= 2, `${commits} commits`)
})

test("two write queues over one file, as in two processes, lose none of each other's writes", async () => {
  await using set = setUp()
  const other = new WriteQueue({ open: () => openWriter({ path: set.path, synchronous: 'normal' }) })
  const count = 100
  const run = async (writeQueue: WriteQueue, prefix: string) => {
    for (let i = 0; i < count; i++) await writeQueue.write(insert(`${prefix}${i}`))
  }
  await Promise.all([run(set.writeQueue, 'a'), run(other, 'b')])
  await other.close()
  const file = new DatabaseSync(set.path, { readOnly: true })
  assert.equal(file.prepare('SELECT count(*) AS n FROM item').get()?.n, 2 * count)
  file.close()
})
