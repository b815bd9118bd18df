/**
 * The writer thread of a store that was opened with `thread: true`. It has the write queue, and so the process's only
 * connection that writes. All calls that are in its port when a turn of the write queue begins share that turn's
 * commit. One message returns all their answers after it.
 *
 * This thread also notices the commits of other processes, because the writer's `data_version` does not change for its
 * own commits.
 */
import { parentPort, workerData } from 'node:worker_threads'
import { openReader, openWriter } from '../connection/connection.ts'
import { DataVersion } from '../connection/data-version.ts'
import { Reader } from '../connection/reader.ts'
import { WriteQueue } from './write-queue.ts'
import { PendingTurns } from './write-queue-meter.ts'
import {
  decodeAll,
  encodeAll,
  encodeAnswerTo,
  encodeFailure,
  type FromThread,
  type NumberedCall,
  type ThreadData,
  type ToThread,
} from './writer-thread-message.ts'
import type { WriteCall } from './writes.ts'
import { createQueueWriter } from './writes.ts'

const port = parentPort!
const { location, isMetered } = workerData as ThreadData
const reader = new Reader(() => openReader(location))
const watch = new DataVersion(reader)
const turns = isMetered ? new PendingTurns() : undefined
const writer = createQueueWriter(
  new WriteQueue({
    open: () => openWriter(location),
    began: (connection) => watch.began(connection),
    meter: turns,
  }),
)
let answers: string[] = []

port.on('message', (message: ToThread) => {
  if ('calls' in message) performAll(decodeAll<NumberedCall>(message.calls), message.since)
  else if ('close' in message) void close()
  else if (message.watch) watch.start(() => post({ news: true }))
  else watch.stop()
})

function performAll(calls: readonly NumberedCall[], since: number): void {
  const begunAt = since - performance.timeOrigin
  for (const [id, afterUs, operation, namespace, args, key] of calls) {
    const call: WriteCall = { operation, namespace, args, key }
    // A callback instead of a promise: promises would cost two objects per call, and nothing here awaits them.
    writer.submit(call, new WriteCaller(id), begunAt + afterUs / 1_000)
  }
}

/** The caller in the other thread. */
class WriteCaller {
  readonly #id: number

  constructor(id: number) {
    this.#id = id
  }

  resolve(value: unknown): void {
    try {
      answer(encodeAnswerTo(this.#id, value))
    } catch (error) {
      this.reject(error)
    }
  }

  reject(error: unknown): void {
    answer(encodeFailure(this.#id, error))
  }
}

function answer(text: string): void {
  // All callers of one commit get their answers in a row. The tick runs after the last one.
  if (answers.push(text) === 1) process.nextTick(sendAnswers)
}

function sendAnswers(): void {
  post({ answers: encodeAll(answers), turns: turns?.take() })
  answers = []
}

async function close(): Promise<void> {
  watch.stop()
  // Before the writer: SQLite removes `-wal` and `-shm` with the last connection, but only if that one can write.
  reader.close()
  await writer.close()
  port.close()
}

function post(message: FromThread): void {
  port.postMessage(message)
}
