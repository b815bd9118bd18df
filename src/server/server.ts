import type { AddressInfo } from 'node:net'
import fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify'
import { type Bell, createBell } from '../core/bell.ts'
import { SignalboxError } from '../core/errors.ts'
import { whole } from '../core/options.ts'
import { version } from '../core/version.ts'
import { resolveServerOptions, type ServerOptions } from './options.ts'
import {
  answerClientError,
  answerHeaders,
  answerOnSocket,
  asSignalboxError,
  problemOf,
  problemType,
} from './problem.ts'

/**
 * The server: one port on the loopback, guarded before it is useful. Every answer is JSON, every failure a problem
 * document, whatever the request looked like. It closes in the order that loses nothing: first it says that it is
 * not ready, then it lets the requests that have begun come to their end, then it cuts what is left.
 */
export interface Server extends AsyncDisposable {
  /** Opens the port and says where; asking again gives the same answer. */
  listen(): Promise<{ readonly url: string }>
  /** Drains and closes; asking again waits for the same end. */
  close(options?: CloseOptions): Promise<void>
}

/** How to close. */
export interface CloseOptions {
  /** How long to wait for requests that have begun. @default the server's graceMs */
  readonly graceMs?: number
}

/** Makes a server; `listen` opens its port. */
export function createServer(options?: ServerOptions): Server {
  return new HttpServer(resolveServerOptions(options))
}

class HttpServer implements Server {
  readonly #options: Required<ServerOptions>
  readonly #app: FastifyInstance
  /** Rings whenever a request has ended. */
  readonly #requestEnded: Bell = createBell()
  /** The values of the Host header that are ours; known once the port is. */
  #ownHosts: ReadonlySet<string> = new Set()
  #requestCount = 0
  #listening: Promise<{ readonly url: string }> | undefined
  #closing: Promise<void> | undefined

  constructor(options: Required<ServerOptions>) {
    this.#options = options
    this.#app = fastify({
      bodyLimit: options.maxBodyBytes,
      requestTimeout: options.requestTimeoutMs,
      onProtoPoisoning: 'error',
      onConstructorPoisoning: 'error',
      // Idle keep-alive connections and, after the grace, hung ones must not hold up `close`.
      forceCloseConnections: true,
      // Draining is answered by `#admit`, as a problem document.
      return503OnClosing: false,
      http: {
        headersTimeout: options.headersTimeoutMs,
        connectionsCheckingInterval: options.timeoutCheckMs,
        maxHeaderSize: options.maxHeaderBytes,
        // A missing Host is answered by `#admit`; Node's own answer is no problem document.
        requireHostHeader: false,
      },
      clientErrorHandler: answerClientError,
      frameworkErrors: (error, _request, reply) => this.#fail(error, reply),
    })
    this.#app.addHook('onRequest', async (request, reply) => this.#admit(request, reply))
    this.#app.setErrorHandler((error, request, reply) => {
      // A route that is not there is the first thing wrong with a request, before the type of its body.
      if (request.is404 && (error as { statusCode?: number }).statusCode === 415)
        return this.#notFound(request, reply)
      return this.#fail(error, reply)
    })
    this.#app.setNotFoundHandler((request, reply) => this.#notFound(request, reply))
    this.#answerWhatNodeWould()
    this.#route()
  }

  listen(): Promise<{ readonly url: string }> {
    if (this.#closing) {
      const error = new SignalboxError('closed', 'This server was closed; make a new one with createServer.')
      return Promise.reject(error)
    }
    this.#listening ??= this.#open()
    return this.#listening
  }

  close({ graceMs = this.#options.graceMs }: CloseOptions = {}): Promise<void> {
    whole('graceMs', graceMs)
    this.#closing ??= this.#shut(graceMs)
    return this.#closing
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }

  #route(): void {
    this.#app.get('/livez', () => ({ status: 'ok', version }))
    this.#app.get('/readyz', () => {
      if (this.#closing) throw drainingError()
      return { status: 'ready', version }
    })
    this.#app.get('/', () => ({
      name: 'signalbox',
      version,
      routes: { '/livez': 'the process is alive', '/readyz': 'it takes requests' },
      note: 'The job, lock and dispatch routes and the dashboard are not in this version yet.',
    }))
  }

  /** Two kinds of request never reach Fastify: Node answers one without a document and drops the other. */
  #answerWhatNodeWould(): void {
    const { server } = this.#app
    // An expectation that we do not know may be ignored (RFC 9110, 10.1.1).
    server.on('checkExpectation', (request, reply) => server.emit('request', request, reply))
    server.on('connect', (_request, socket) => {
      answerOnSocket(
        new SignalboxError('not_found', 'There is no route CONNECT: this server is no proxy.'),
        socket,
      )
    })
  }

  async #open(): Promise<{ readonly url: string }> {
    const { host, port } = this.#options
    try {
      await this.#app.listen({ host, port })
    } catch (error) {
      throw listenError(error, host, port)
    }
    const address = this.#app.server.address() as AddressInfo
    const inUrl = host.includes(':') ? `[${host}]` : host
    const names = ['localhost', '127.0.0.1', '[::1]', inUrl]
    const own = names.map((name) => `${name}:${address.port}`)
    // Browsers leave out the port of the scheme.
    this.#ownHosts = new Set(address.port === 80 ? [...own, ...names] : own)
    return { url: `http://${inUrl}:${address.port}` }
  }

  async #shut(graceMs: number): Promise<void> {
    // A port that is just being opened would otherwise stay open.
    await this.#listening?.catch(() => {})
    const endsAt = performance.now() + graceMs
    while (this.#requestCount > 0) {
      const timeoutMs = endsAt - performance.now()
      if (timeoutMs <= 0) break
      await this.#requestEnded.wait({ timeoutMs })
    }
    await this.#app.close()
  }

  /** What every request passes before anything else is done for it. */
  #admit(request: FastifyRequest, reply: FastifyReply): void {
    this.#requestCount++
    // `close` comes once for every reply, also when the client went away.
    reply.raw.once('close', () => {
      this.#requestCount--
      this.#requestEnded.ring()
    })
    reply.headers(answerHeaders)
    this.#checkHost(request)
    if (!this.#closing) return
    // Keep-alive would bring the next request to a server that is going away.
    reply.header('connection', 'close')
    if (request.routeOptions.url !== '/livez') throw drainingError()
  }

  /**
   * A page on the web can point its own name at 127.0.0.1 and then speak to us as its own origin (DNS rebinding).
   * It cannot forge the Host header, so only our own names are answered.
   */
  #checkHost(request: FastifyRequest): void {
    const { host } = request.headers
    if (!host) throw new SignalboxError('invalid_argument', 'The request has no Host header.')
    if (!this.#ownHosts.has(host.toLowerCase())) {
      throw new SignalboxError('forbidden', 'The Host header does not name this server.')
    }
    // `GET http://elsewhere/ HTTP/1.1` names a host of its own, past the header that was just checked.
    if (!request.url.startsWith('/')) {
      throw new SignalboxError('invalid_argument', 'The request target must be a path that begins with "/".')
    }
  }

  #notFound(request: FastifyRequest, reply: FastifyReply): FastifyReply {
    const [path] = request.url.split('?', 1)
    return this.#fail(new SignalboxError('not_found', `There is no route ${request.method} ${path}.`), reply)
  }

  #fail(thrown: unknown, reply: FastifyReply): FastifyReply {
    const error = asSignalboxError(thrown)
    if (error.code === 'internal') this.#report(thrown)
    const problem = problemOf(error)
    return reply.code(problem.status).headers(answerHeaders).type(problemType).send(problem)
  }

  #report(error: unknown): void {
    try {
      this.#options.onError(error)
    } catch (hookError) {
      // Thrown on, it would reach Fastify's own handler, which tells the client its message.
      console.error('onError itself failed:', hookError)
    }
  }
}

function drainingError(): SignalboxError {
  return new SignalboxError(
    'draining',
    'This server is shutting down; send the request to another, or a little later.',
  )
}

function listenError(error: unknown, host: string, port: number): SignalboxError {
  const { code } = error as NodeJS.ErrnoException
  const details = { host, port, reason: code }
  const options = { cause: error, details }
  switch (code) {
    case 'EADDRINUSE':
      return new SignalboxError(
        'listen_failed',
        `Port ${port} on ${host} is already in use. Stop what uses it, or choose another with --port (0 takes a free one).`,
        options,
      )
    case 'EACCES':
      return new SignalboxError(
        'listen_failed',
        `Port ${port} on ${host} is not permitted to this user. Choose one above 1023 with --port.`,
        options,
      )
    default:
      return new SignalboxError(
        'listen_failed',
        `Port ${port} on ${host} could not be opened (${code}).`,
        options,
      )
  }
}
