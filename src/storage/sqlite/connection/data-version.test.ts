import assert from 'node:assert/strict'
import { afterEach, beforeEach, test, vi } from 'vitest'
import type { Connection } from './connection.ts'
import { DataVersion } from './data-version.ts'
import type { Reader } from './reader.ts'

/** A connection whose `data_version` the test sets; undefined: it is locked. */
function aConnection(version: number | undefined) {
  const stage = { version }
  const connection = {
    db: { isOpen: true },
    get() {
      if (stage.version === undefined) throw new Error('SQLITE_BUSY')
      return { data_version: stage.version }
    },
  }
  return { stage, connection: connection as unknown as Connection }
}

function watched() {
  const reader = aConnection(2)
  const watch = new DataVersion({
    readNow: (read: (connection: Connection) => number) => read(reader.connection),
  } as Reader)
  let heard = 0
  watch.start(() => heard++)
  return { watch, reader: reader.stage, heard: () => heard }
}

beforeEach(() => {
  vi.useFakeTimers()
})
afterEach(() => {
  vi.useRealTimers()
})

test('commits of others are seen once, and our own commits are not', () => {
  const { watch, reader, heard } = watched()
  vi.advanceTimersByTime(100)
  assert.equal(heard(), 0)
  reader.version = 3
  vi.advanceTimersByTime(100)
  assert.equal(heard(), 1)
  const writer = aConnection(9)
  watch.began(writer.connection)
  reader.version = 4
  vi.advanceTimersByTime(100)
  assert.equal(heard(), 1)
  writer.stage.version = 10
  vi.advanceTimersByTime(100)
  assert.equal(heard(), 2)
  watch.stop()
})

test('a connection whose first data version could not be read hides no commit', () => {
  const { watch, heard } = watched()
  const writer = aConnection(undefined)
  watch.began(writer.connection)
  // Another process commits, and the number happens to be the one that was seen elsewhere before.
  writer.stage.version = 2
  vi.advanceTimersByTime(100)
  assert.equal(heard(), 1)
  watch.stop()
})
