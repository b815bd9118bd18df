/**
 * Receivers of webhooks, each on its own port. They report their ports, and then that all the living ones have as many
 * messages as they were to get. A dead one takes connections and requests and never answers.
 */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'

export interface ReceiversOrder {
  readonly living: number
  readonly dead: number
  /** How many messages each living one is to get. */
  readonly messages: number
}

export interface ReceiversWord {
  readonly ports?: readonly number[]
}

const { living, dead, messages } = JSON.parse(process.argv[2]!) as ReceiversOrder
let waiting = living

async function listen(isDead: boolean): Promise<number> {
  const seen = new Set<string>()
  const server = createServer((request, response) => {
    request.resume()
    if (isDead) return
    request.on('end', () => {
      response.end('{}')
      const id = String(request.headers['webhook-id'])
      if (seen.has(id)) return
      seen.add(id)
      if (seen.size === messages && --waiting === 0) process.send!({})
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  return (server.address() as AddressInfo).port
}

const ports: number[] = []
for (let nr = 0; nr < dead; nr++) ports.push(await listen(true))
for (let nr = 0; nr < living; nr++) ports.push(await listen(false))
process.send!({ ports })
