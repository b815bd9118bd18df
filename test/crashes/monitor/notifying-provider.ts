/**
 * A provider of webhooks that fails, cuts off before or after it took a message, and answers late. What it took is
 * what people heard.
 */

import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'
import { setTimeout as sleep } from 'node:timers/promises'
import type { WebhookChannel } from 'signalbox/monitor'
import type { Random } from '../random.ts'
import type { TakenMessage } from './notifying-checker.ts'

export interface NotifyingProvider extends AsyncDisposable {
  readonly taken: readonly TakenMessage[]
  /** How often it did what it should not. */
  readonly faults: number
  /** A separate channel; one that is `mortal` refuses some messages for good. */
  channel(name: string, kind?: 'mortal'): WebhookChannel
  /** From now on it takes everything at once. */
  calm(): void
}

/** Longer than senders wait. */
const lateMs = 700

export async function startNotifyingProvider(random: Random): Promise<NotifyingProvider> {
  const taken: TakenMessage[] = []
  let isCalm = false
  let faults = 0

  async function answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const { data } = JSON.parse(await text(request))
    const cut = () => void request.socket.destroy()
    const fail = (status: number) => void response.writeHead(status).end()
    const dice = isCalm ? 1 : random()
    if (dice < 0.085) faults++
    if (dice < 0.04) return fail(500)
    if (dice < 0.06) return cut()
    if (request.url?.startsWith('/mortal') && !isCalm && random() < 0.2) return fail(410)
    taken.push({ marked: data.possibleRepeat, changes: data.changes })
    if (dice < 0.08) return cut()
    if (dice < 0.085) await sleep(lateMs)
    else await sleep(random.whole(0, 5))
    response.end('{}')
  }

  const server = createServer((request, response) => {
    // Its sender was killed while it still spoke.
    answer(request, response).catch(() => request.socket.destroy())
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    taken,
    get faults() {
      return faults
    },
    channel: (name, kind) => ({
      type: 'webhook',
      url: `http://127.0.0.1:${port}/${kind ?? 'sound'}/${name}`,
      secret: 'a-secret-of-the-provider',
    }),
    calm: () => {
      isCalm = true
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}
