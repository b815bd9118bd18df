import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer as createHttpServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { type Box, type OpenOptions, open } from 'signalbox'
import {
  createHandler,
  createServer,
  type FetchHandler,
  type HandlerOptions,
  type ServerOptions,
} from 'signalbox/server'

/** A box behind a separate port, and the shortest way to send it requests. */
export interface Stage extends AsyncDisposable {
  readonly url: string
  readonly box: Box
  ask(method: string, path: string, request?: Asked): Promise<Reply>
}

/** What is sent. Text and bytes go as they are, all else as JSON. */
export interface Asked {
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal
}

export interface Reply {
  readonly status: number
  readonly headers: Headers
  /** Parsed, where it is JSON. */
  // biome-ignore lint/suspicious/noExplicitAny: what a test reads from it is what it tests.
  readonly body: any
}

export async function serving(
  options: Omit<ServerOptions, 'box'> = {},
  url: string | ((folder: string) => string) = 'memory:',
  boxOptions: OpenOptions = {},
): Promise<Stage> {
  const folder = typeof url === 'string' ? undefined : await mkdtemp(join(tmpdir(), 'signalbox-server-'))
  const box = await open(typeof url === 'string' ? url : url(folder!), boxOptions)
  const server = createServer({ box, port: 0, ...options })
  const { url: address } = await server.listen()
  return {
    url: address,
    box,
    ask: (method, path, asked) => readReply(fetch(address + path, requestInit(method, asked))),
    async [Symbol.asyncDispose]() {
      await server.close()
      await box.close()
      if (folder !== undefined) await rm(folder, { recursive: true })
    },
  }
}

/** The same without a port. */
export async function mounted(options: Omit<HandlerOptions, 'box'> = { trust: true }): Promise<Stage> {
  const box = await open('memory:')
  const handler = createHandler({ box, ...options })
  const url = 'http://signalbox.example'
  return {
    url,
    box,
    ask: (method, path, asked) => readReply(handler(new Request(url + path, requestInit(method, asked)))),
    async [Symbol.asyncDispose]() {
      await handler.close()
      await box.close()
    },
  }
}

/** The same in an app that has Node's request and response, which come to it through `before`. */
export async function listening(
  options: Omit<HandlerOptions, 'box'> = { trust: true },
  before: (request: IncomingMessage, response: ServerResponse, handler: FetchHandler) => void = (
    request,
    response,
    { listener },
  ) => listener(request, response),
): Promise<Stage & { readonly handler: FetchHandler }> {
  const box = await open('memory:')
  const handler = createHandler({ box, ...options })
  const app = createHttpServer((request, response) => before(request, response, handler))
  app.on('upgrade', (request, socket, head) => {
    if (!handler.upgrade(request, socket, head)) socket.destroy()
  })
  app.listen(0, '127.0.0.1')
  await once(app, 'listening')
  const url = `http://127.0.0.1:${(app.address() as AddressInfo).port}`
  return {
    url,
    box,
    handler,
    ask: (method, path, asked) => readReply(fetch(url + path, requestInit(method, asked))),
    async [Symbol.asyncDispose]() {
      await handler.close()
      app.closeAllConnections()
      app.close()
      await box.close()
    },
  }
}

function requestInit(method: string, { body, headers = {}, signal }: Asked = {}): RequestInit {
  const isRaw = typeof body === 'string' || body instanceof Uint8Array
  const sent = body === undefined ? null : isRaw ? body : JSON.stringify(body)
  const type: Record<string, string> = sent === null ? {} : { 'content-type': 'application/json' }
  return { method, body: sent, headers: { ...type, ...headers }, ...(signal ? { signal } : {}) }
}

async function readReply(answered: Promise<Response>): Promise<Reply> {
  const response = await answered
  const text = await response.text()
  const isJson = /json/.test(response.headers.get('content-type') ?? '') && text !== ''
  return { status: response.status, headers: response.headers, body: isJson ? JSON.parse(text) : text }
}
