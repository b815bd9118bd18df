import type { ClientRequest, IncomingMessage } from 'node:http'
import type { OutboundReply } from '../channels/channel.ts'

/** The connection was not made, because the address may not be reached; the message says so and names nothing. */
export class Blocked extends Error {}

/** Sends the body and hears the reply out, as far as time and size allow. Never rejects. */
export function converse(
  call: ClientRequest,
  body: string,
  secure: boolean,
  timeoutMs: number,
  maxReplyBytes: number,
): Promise<OutboundReply> {
  const { promise, resolve } = Promise.withResolvers<OutboundReply>()
  // Once true, bytes of the request may have left.
  let connected = false
  let reply: IncomingMessage | undefined
  const chunks: Buffer[] = []
  let bytes = 0
  let ended = false

  const end = (problem?: string): void => {
    if (ended) return
    ended = true
    clearTimeout(timer)
    if (reply === undefined) resolve({ ...notSent(problem ?? 'no reply'), sure: !connected })
    else {
      const text = Buffer.concat(chunks, Math.min(bytes, maxReplyBytes)).toString('utf8')
      const headers = flatten(reply.headers)
      resolve({ status: reply.statusCode ?? 0, headers, body: text, ...(problem && { problem }) })
    }
  }
  const timer = setTimeout(() => {
    end(`no whole reply within ${timeoutMs} ms`)
    call.destroy()
  }, timeoutMs)

  call.on('socket', (socket) => {
    if (call.reusedSocket || !socket.connecting) connected = true
    // Over TLS nothing of the request leaves before the other side has proved who it is.
    else socket.once(secure ? 'secureConnect' : 'connect', () => (connected = true))
  })
  call.on('error', (error) => end(explain(error, connected)))
  call.on('response', (message) => {
    reply = message
    message.on('data', (chunk: Buffer) => {
      chunks.push(chunk)
      bytes += chunk.length
      if (bytes <= maxReplyBytes) return
      end(`the reply was longer than ${maxReplyBytes} bytes and was cut`)
      call.destroy()
    })
    message.on('end', () => end())
    message.on('error', (error) => end(explain(error, true)))
    message.on('close', () => end('the connection ended within the reply'))
  })
  call.end(body)
  return promise
}

/** Says what happened by its code alone: messages of Node quote names, paths and certificates. */
function explain(error: Error, connected: boolean): string {
  if (error instanceof Blocked) return error.message
  const code = (error as NodeJS.ErrnoException).code ?? 'no code'
  if (error instanceof AggregateError) return `none of its addresses could be connected to (${code})`
  switch (code) {
    case 'ENOTFOUND':
    case 'EAI_AGAIN':
      return `the name of the host was not resolved (${code})`
    case 'ECONNREFUSED':
      return 'the connection was refused'
    case 'ECONNRESET':
    case 'EPIPE':
      return connected
        ? 'the connection ended before a reply came'
        : 'the connection ended as it was being made'
    default:
      return connected ? `the exchange failed (${code})` : `the connection could not be made (${code})`
  }
}

/** The reply to what never left. */
export function notSent(problem: string): OutboundReply {
  return { status: 0, headers: {}, body: '', problem, sure: true }
}

function flatten(headers: IncomingMessage['headers']): Record<string, string> {
  const flat: Record<string, string> = {}
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined) flat[name] = Array.isArray(value) ? value.join(', ') : value
  }
  return flat
}
