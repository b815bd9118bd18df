/** A server of scripted answers, for what a real one never does: cut bodies, foreign pages, silence. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'

/** A request as it came. */
export interface Seen {
  readonly method: string
  readonly path: string
  readonly headers: IncomingMessage['headers']
  readonly body: string
}

export type Script = (seen: Seen, response: ServerResponse, nth: number) => void | Promise<void>

export interface FakeServer extends AsyncDisposable {
  readonly url: string
  readonly seen: readonly Seen[]
  /** Cuts every connection there is. */
  cut(): void
}

/** Answers each request by the script, which gets the number of earlier requests. */
export async function fakeServer(script: Script): Promise<FakeServer> {
  const seen: Seen[] = []
  const sockets = new Set<Socket>()
  const server = createServer(async (request, response) => {
    let body = ''
    for await (const chunk of request) body += chunk
    const one = { method: request.method!, path: request.url!, headers: request.headers, body }
    seen.push(one)
    await script(one, response, seen.length - 1)
  })
  server.on('connection', (socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const cut = () => {
    for (const socket of sockets) socket.destroy()
  }
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    seen,
    cut,
    async [Symbol.asyncDispose]() {
      cut()
      server.close()
      await once(server, 'close')
    },
  }
}

export function json(response: ServerResponse, value: unknown, status = 200): void {
  response.writeHead(status, { 'content-type': 'application/json; charset=utf-8' }).end(JSON.stringify(value))
}

export function problem(
  response: ServerResponse,
  status: number,
  code: string,
  { headers = {}, ...more }: { headers?: Record<string, string> } & Record<string, unknown> = {},
): void {
  response
    .writeHead(status, { 'content-type': 'application/problem+json; charset=utf-8', ...headers })
    .end(
      JSON.stringify({ type: `urn:x:${code}`, title: 't', status, code, detail: `It is ${code}.`, ...more }),
    )
}

export function page(response: ServerResponse, status: number, headers: Record<string, string> = {}): void {
  response
    .writeHead(status, { 'content-type': 'text/html', ...headers })
    .end('<html><h1>Bad Gateway</h1></html>')
}
