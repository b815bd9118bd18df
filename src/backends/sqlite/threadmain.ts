/**
 * The thread that writes, where a store is opened with `thread: true`: it has the gate, and so the only connection of
 * ours that writes. All calls that lie in its port when a turn of the gate begins share that turn's commit, and their
 * answers go back in one message when it is made.
 *
 * Other processes' commits are noticed here too, because the writer's `data_version` stands still for its own.
 */
import { parentPort, workerData } from 'node:worker_threads'
import { openReader, openWriter } from './connection.ts'
import { DataVersion } from './dataversion.ts'
import { Gate } from './gate.ts'
import { encodeTurn, type ToldTurn } from './gatemeter.ts'
import { Reader } from './reader.ts'
import {
  decodeAll,
  encodeAll,
  encodeAnswerTo,
  encodeFailure,
  type FromThread,
  type NumberedCall,
  type ThreadData,
  type ToThread,
} from './threadmessage.ts'
import { createGateWriter } from './writer.ts'

const port = parentPort!
const { location, isMetered } = workerData as ThreadData
const reader = new Reader(() => openReader(location))
const watch = new DataVersion(reader)
const writer = createGateWriter(
  new Gate({
    open: () => openWriter(location),
    began: (connection) => watch.began(connection),
    meter: isMetered ? { turn: (...turn) => void turns.push(encodeTurn(...turn)) } : undefined,
  }),
)
let answers: string[] = []
let turns: ToldTurn[] = []

port.on('message', (message: ToThread) => {
  if ('calls' in message) for (const call of decodeAll<NumberedCall>(message.calls)) void perform(call)
  else if ('close' in message) void close()
  else if (message.watch) watch.start(() => post({ news: true }))
  else watch.stop()
})

async function perform({ id, begunAt, ...call }: NumberedCall): Promise<void> {
  try {
    const since = begunAt === undefined ? undefined : begunAt - performance.timeOrigin
    answer(encodeAnswerTo(id, await writer.write(call, since)))
  } catch (error) {
    answer(encodeFailure(id, error))
  }
}

function answer(text: string): void {
  // All who are told of one commit are told in the same round of promises; a tick comes when that is over.
  if (answers.push(text) === 1) process.nextTick(sendAnswers)
}

function sendAnswers(): void {
  post({ answers: encodeAll(answers), turns })
  answers = []
  turns = []
}

async function close(): Promise<void> {
  watch.stop()
  // Before the writer: SQLite removes `-wal` and `-shm` with the last connection, if that one may write.
  reader.close()
  await writer.close()
  port.close()
}

function post(message: FromThread): void {
  port.postMessage(message)
}
