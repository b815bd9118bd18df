import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'

/**
 * The base of all stand-ins: a small server on 127.0.0.1 that enforces the provider's rules, records accepted and
 * refused messages, and can be made to misbehave. It imports nothing of Signalbox, so that both sides of a signature
 * never have the same mistake.
 */

/**
 * `500`, `nonsense` and `hang` accept nothing. `close` reads the request and closes without an answer; `takeAndClose`
 * does the same, but has accepted the message: the sender cannot distinguish the two.
 */
export type Misbehaviour = '500' | 'nonsense' | 'hang' | 'close' | 'takeAndClose'

export interface Refusal {
  readonly at: number
  /** The provider's code, or the HTTP status where it has none. */
  readonly code: number
  readonly why: string
  readonly body: string
}

export interface TakenMessage {
  readonly at: number
  /** The text that people would read. */
  readonly text: string
  /** The body, parsed. */
  // biome-ignore lint/suspicious/noExplicitAny: tests look into whatever the provider was sent.
  readonly body: any
  readonly headers: IncomingMessage['headers']
}

export interface StandIn extends AsyncDisposable {
  /** The robot's whole address, with its key. */
  readonly url: string
  readonly messages: readonly TakenMessage[]
  readonly refusals: readonly Refusal[]
  /** The number of requests, whatever their outcome. */
  readonly requests: number
  /** The number of connections. */
  readonly connections: number
  /** Applies to the next requests (all by default); null: behaves normally again. */
  misbehave(how: Misbehaviour | null, times?: number): void
  /** Resolves when this many messages were accepted; rejects after a time. */
  waitFor(count: number, timeoutMs?: number): Promise<void>
  close(): Promise<void>
}

export interface StandInOptions {
  /** @default Date.now */
  readonly now?: () => number
  /** @default 0: any free port */
  readonly port?: number
  /** The delay before an answer. @default 0 */
  readonly delayMs?: number
}

export interface Request {
  readonly at: number
  readonly url: URL
  readonly headers: IncomingMessage['headers']
  readonly method: string
  readonly raw: string
  readonly bytes: number
}

export interface Answer {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  readonly body: string
}

/** The decision of a provider on a request. */
export type Decision =
  | { readonly taken: true; readonly text: string; readonly body: unknown; readonly answer: Answer }
  | { readonly taken: false; readonly code: number; readonly why: string; readonly answer: Answer }

/** A stand-in at `path` that answers with the decisions of `decide`. */
export async function startStandIn(
  path: string,
  { now = Date.now, port = 0, delayMs = 0 }: StandInOptions,
  decide: (request: Request) => Decision,
): Promise<StandIn> {
  const messages: TakenMessage[] = []
  const refusals: Refusal[] = []
  const waiting = new Set<() => void>()
  let misbehaviour: { how: Misbehaviour; times: number } | null = null
  let requests = 0
  let connections = 0

  async function serve(incoming: IncomingMessage, response: ServerResponse): Promise<void> {
    requests += 1
    const body = await readAll(incoming)
    if (delayMs > 0) await new Promise((done) => setTimeout(done, delayMs))
    const how = nextMisbehaviour()
    if (how === 'hang') return
    if (how === 'close') return void incoming.socket.destroy()
    if (how === '500') return send(response, { status: 500, body: 'internal error' })
    if (how === 'nonsense') return send(response, { status: 200, body: '<html>It works!</html>' })
    const request: Request = {
      at: now(),
      url: new URL(incoming.url ?? '/', 'http://stand.in'),
      headers: incoming.headers,
      method: incoming.method ?? '',
      raw: body.toString('utf8'),
      bytes: body.length,
    }
    const decision = decide(request)
    if (decision.taken) {
      messages.push({ at: request.at, text: decision.text, body: decision.body, headers: request.headers })
      for (const look of waiting) look()
    } else {
      refusals.push({ at: request.at, code: decision.code, why: decision.why, body: request.raw })
    }
    if (how === 'takeAndClose') incoming.socket.destroy()
    else send(response, decision.answer)
  }

  function nextMisbehaviour(): Misbehaviour | undefined {
    if (misbehaviour === null) return undefined
    const { how } = misbehaviour
    misbehaviour.times -= 1
    if (misbehaviour.times <= 0) misbehaviour = null
    return how
  }

  const server = createServer((incoming, response) => {
    // The request of a sender that gave up is ignored.
    serve(incoming, response).catch(() => incoming.socket.destroy())
  })
  server.on('connection', () => {
    connections += 1
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, '127.0.0.1', resolve)
  })

  const close = async (): Promise<void> => {
    if (!server.listening) return
    await new Promise<void>((resolve) => {
      server.close(() => resolve())
      server.closeAllConnections()
    })
  }
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`,
    messages,
    refusals,
    get requests() {
      return requests
    },
    get connections() {
      return connections
    },
    misbehave(how, times = Number.POSITIVE_INFINITY) {
      misbehaviour = how === null ? null : { how, times }
    },
    async waitFor(count, timeoutMs = 10_000) {
      const { promise, resolve, reject } = Promise.withResolvers<void>()
      const look = (): void => {
        if (messages.length >= count) resolve()
      }
      waiting.add(look)
      look()
      const late = () => reject(new Error(`${messages.length} of ${count} messages after ${timeoutMs} ms`))
      const timer = setTimeout(late, timeoutMs)
      try {
        await promise
      } finally {
        clearTimeout(timer)
        waiting.delete(look)
      }
    },
    close,
    [Symbol.asyncDispose]: close,
  }
}

async function readAll(incoming: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  for await (const chunk of incoming) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks)
}

function send(response: ServerResponse, { status, headers = {}, body }: Answer): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers })
  response.end(body)
}

/** The JSON of a request's body, or undefined. */
export function parseJson(raw: string): Record<string, unknown> | undefined {
  try {
    const value: unknown = JSON.parse(raw)
    return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}

/** Whether this is non-empty text. */
export function isText(value: unknown): value is string {
  return typeof value === 'string' && value !== ''
}

/** Counts requests within the last `perMs`. `take` returns false for a request above the limit. */
export function createWindow(most: number, perMs: number): { take(at: number): boolean } {
  let times: number[] = []
  return {
    take(at) {
      times = times.filter((time) => time > at - perMs)
      if (times.length >= most) return false
      times.push(at)
      return true
    },
  }
}
