/** The waiters of one wait queue of a server, each with a separate stream: plain sockets and the least parsing. */
import { Agent, request } from 'node:http'
import { connect, type Socket } from 'node:net'

const queue = { operation: 'bench', resource: 'contended' }
const ttlMs = 600_000

/** One whose wait has come to something. */
export interface Called {
  readonly event: 'granted' | 'completed'
  readonly node: string
  readonly token: number
  readonly at: number
}

export interface Crowd extends Disposable {
  /** Takes the lock while it has no other holder. */
  take(node: string): Promise<number>
  /** Adds this many waiters, each with an open stream. */
  join(many: number, want: 'turn' | 'result'): Promise<void>
  /** Takes up a turn that was granted. */
  begin(node: string, token: number): Promise<void>
  release(node: string, token: number): Promise<void>
  /** The next waiters that are called from now on, this many. */
  called(many: number): Promise<readonly Called[]>
}

export function createCrowd(port: number): Crowd {
  const agent = new Agent({ keepAlive: true, maxSockets: 16 })
  const sockets = new Set<Socket>()
  let joined = 0
  let heard: (called: Called) => void = () => undefined

  async function acquire(node: string, want: 'turn' | 'result'): Promise<{ status: string; token: number }> {
    return JSON.parse(await ask(agent, port, '/v1/locks/acquire', { ...queue, node, want, ttlMs }))
  }

  /** Open once its place has been told. */
  function openStream(node: string): Promise<void> {
    return new Promise((resolve, reject) => {
      const socket = connect(port, '127.0.0.1')
      sockets.add(socket)
      let text = ''
      socket.on('error', reject)
      socket.on('close', () => sockets.delete(socket))
      socket.on('connect', () =>
        socket.write(
          `GET /v1/locks/events?operation=bench&resource=contended&node=${node} HTTP/1.1\r\n` +
            `Host: 127.0.0.1:${port}\r\nAccept: text/event-stream\r\n\r\n`,
        ),
      )
      socket.on('data', (chunk) => {
        text += chunk.toString('latin1')
        if (text.startsWith('HTTP/1.1') && !text.startsWith('HTTP/1.1 200'))
          reject(new Error(text.slice(0, 300)))
        if (text.includes('event: queued')) resolve()
        const [, event, data] = /event: (granted|completed)\n(?:id: .*\n)?data: (.*)\n/.exec(text) ?? []
        text = text.slice(text.lastIndexOf('\n\n') + 1)
        if (event === undefined) return
        const token = event === 'granted' ? (JSON.parse(data!) as { token: number }).token : 0
        heard({ event: event as Called['event'], node, token, at: performance.now() })
        socket.destroy()
      })
    })
  }

  return {
    async take(node) {
      const { status, token } = await acquire(node, 'turn')
      if (status !== 'granted') throw new Error(`${node} was ${status}`)
      return token
    },
    async join(many, want) {
      // In parts, so that the backlog of the listening socket is never full and no waiter waits long for its stream.
      for (let left = many; left > 0; left -= 200) {
        const nodes = Array.from({ length: Math.min(left, 200) }, () => `node-${joined++}`)
        await Promise.all(nodes.map((node) => acquire(node, want).then(() => openStream(node))))
      }
    },
    async begin(node, token) {
      await ask(agent, port, '/v1/locks/renew', { ...queue, node, token, ttlMs })
    },
    async release(node, token) {
      await ask(agent, port, '/v1/locks/release', { ...queue, node, token, outcome: 'success' })
    },
    called(many) {
      return new Promise((resolve) => {
        const all: Called[] = []
        heard = (called) => {
          all.push(called)
          if (all.length === many) resolve(all)
        }
      })
    },
    [Symbol.dispose]() {
      agent.destroy()
      for (const socket of sockets) socket.destroy()
    },
  }
}

function ask(agent: Agent, port: number, path: string, body: object): Promise<string> {
  const text = JSON.stringify(body)
  return new Promise((resolve, reject) => {
    const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) }
    const asking = request({ agent, host: '127.0.0.1', port, path, method: 'POST', headers }, (reply) => {
      let answer = ''
      reply.setEncoding('utf8')
      reply.on('data', (chunk: string) => {
        answer += chunk
      })
      reply.on('end', () =>
        reply.statusCode! < 300 ? resolve(answer) : reject(new Error(`${reply.statusCode}: ${answer}`)),
      )
    })
    asking.on('error', reject)
    asking.end(text)
  })
}
