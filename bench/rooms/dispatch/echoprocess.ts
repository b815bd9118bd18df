/** The limit of a server's rate: bare `ws`, the frames of a dispatch and nothing behind them. */
import { type WebSocket, WebSocketServer } from 'ws'
import { answer, orderOf } from './forked.ts'
import { type SocketsPace, worked } from './paced.ts'

export interface EchoOrder {
  /** Exchanges under way at a time, over all sockets. */
  readonly underWay: number
}

const { underWay } = orderOf<EchoOrder>()
const server = new WebSocketServer({ host: '127.0.0.1', port: 0, perMessageDeflate: false })
const sockets: WebSocket[] = []
const assign = JSON.stringify({
  ...{ type: 'task.assign', taskId: '01jqz00000000000000000000a', attempt: 1, service: 'asr' },
  ...{ payload: { text: 'where is the station, please?', from: 'en', to: 'de' }, deadlineAt: null },
})
const settled = JSON.stringify({ type: 'task.settled', taskId: '01jqz00000000000000000000a', attempt: 1 })
let endedCount = 0
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
    endedCount++
    socket.send(settled)
    if (isRunning) sockets[next++ % sockets.length]!.send(assign)
  }
}

answer({
  port: () => (server.address() as { port: number }).port,
  async run(pace: SocketsPace) {
    isRunning = true
    for (let count = 0; count < underWay; count++) sockets[next++ % sockets.length]!.send(assign)
    const done = await worked(pace, () => endedCount)
    isRunning = false
    return done
  },
})
