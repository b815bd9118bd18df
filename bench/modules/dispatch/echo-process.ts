/**
 * The limit of a server's rate: bare `ws`, the frames of a dispatch and nothing behind them; or, with a database, the rows
 * of its tasks written raw by a thread beside it, and each batch sent once it is claimed and counted once its end is on disk.
 */
import { Worker } from 'node:worker_threads'
import { type WebSocket, WebSocketServer } from 'ws'
import { answer, orderOf } from './forked.ts'
import { type SocketsPace, worked } from './paced.ts'
import type { RowsQuestion } from './raw-rows-thread.ts'
import { rawBatch } from './raw-tasks.ts'

export interface EchoOrder {
  /** Exchanges under way at a time, over all sockets. */
  readonly underWay: number
  /** @default no rows are written */
  readonly database?: string
}

const { underWay, database } = orderOf<EchoOrder>()
const server = new WebSocketServer({ host: '127.0.0.1', port: 0, perMessageDeflate: false })
const sockets: WebSocket[] = []
const assign = JSON.stringify({
  ...{ type: 'task.assign', taskId: '01jqz00000000000000000000a', attempt: 1, service: 'asr' },
  ...{ payload: { text: 'where is the station, please?', from: 'en', to: 'de' }, deadlineAt: null },
})
const settled = JSON.stringify({ type: 'task.settled', taskId: '01jqz00000000000000000000a', attempt: 1 })
const thread = database === undefined ? undefined : startThread(database)
let endedCount = 0
/** Results whose rows are not on their way to the disk yet. */
let unwritten = 0
let isRunning = false
let next = 0

server.on('connection', (socket) => {
  sockets.push(socket)
  socket.on('message', (data: Buffer) => hear(socket, data.toString()))
})

function hear(socket: WebSocket, text: string): void {
  if (text.startsWith('{"type":"hello"'))
    socket.send(JSON.stringify({ type: 'welcome', epoch: 1, heartbeatMs: 15_000 }))
  else if (text.startsWith('{"type":"task.result"')) {
    socket.send(settled)
    if (thread === undefined) {
      endedCount++
      if (isRunning) send(1)
    } else if (++unwritten === rawBatch) {
      unwritten = 0
      if (isRunning) thread.postMessage('end' satisfies RowsQuestion)
    }
  }
}

function send(count: number): void {
  for (let left = count; left > 0; left--) sockets[next++ % sockets.length]!.send(assign)
}

function startThread(path: string): Worker {
  const worker = new Worker(new URL('raw-rows-thread.ts', import.meta.url), { workerData: path })
  worker.on('message', (answered: RowsQuestion) => {
    if (answered === 'end') endedCount += rawBatch
    send(rawBatch)
  })
  return worker
}

answer({
  port: () => (server.address() as { port: number }).port,
  async run(pace: SocketsPace) {
    isRunning = true
    if (thread === undefined) send(underWay)
    else
      for (let left = underWay; left > 0; left -= rawBatch) thread.postMessage('begin' satisfies RowsQuestion)
    const done = await worked(pace, () => endedCount)
    isRunning = false
    return done
  },
})
