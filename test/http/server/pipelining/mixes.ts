import type { Numbers } from '../fuzz/requests.ts'

/**
 * Connections with several requests in a row, sent before any is answered, and what each connection must answer. A
 * seed gives the same connections everywhere.
 */

/**
 * The layer in front of the server: nothing, or a proxy with separate connections to the server. It reads a request
 * whole before it sends it on, or sends each part at once.
 */
export type Front = 'none' | 'buffering proxy' | 'streaming proxy'

export interface MixRequest {
  /** Its `X-Request-Id`, and the kind of the job that it adds. */
  readonly id: string
  readonly what: string
  readonly bytes: string
  /** The right answers. */
  readonly statuses: readonly number[]
  /** Whether its answer names it. Answers to what never became a request do not. */
  readonly isNamed: boolean
  /** The connection ends with its answer; what stands behind it is not a request. */
  readonly isLast: boolean
  /** The connection may end with its answer. */
  readonly mayBeLast?: boolean
}

export interface Packet {
  readonly bytes: string
  /** How long the client waits after it; undefined: not at all. */
  readonly waitMs: number | undefined
}

export interface Mix {
  readonly requests: readonly MixRequest[]
  readonly packets: readonly Packet[]
  /** The requests that must be answered, in this order. */
  readonly answered: readonly MixRequest[]
}

/** Ways to ask for an upgrade that is none. */
const upgrades: Readonly<Record<string, string>> = {
  upgrade: 'Connection: Upgrade\r\nUpgrade: x\r\n',
  h2c: 'Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n',
  'upgrade without connection': 'Upgrade: x\r\n',
  'upgrade of a kept connection': 'Connection: keep-alive, Upgrade\r\nUpgrade: x\r\n',
  'empty upgrade': 'Connection: Upgrade\r\nUpgrade:\r\n',
  'two upgrades': 'Upgrade: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n',
  'odd upgrade': 'cONNECTION:uPGRADE\r\nuPGRADE:   X  \r\n',
}

const webSocket =
  'Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n'

/** Makes the mixes of one run. */
export class MixMaker {
  readonly #host: string
  readonly #front: Front
  readonly #numbers: Numbers
  #hiddenCount = 0

  constructor(host: string, front: Front, numbers: Numbers) {
    this.#host = host
    this.#front = front
    this.#numbers = numbers
  }

  make(name: string): Mix {
    const count = 2 + Math.floor(this.#numbers() * 6)
    const requests = Array.from({ length: count }, (_, index) => this.#request(`${name}-${index}`))
    const last = requests.findIndex(({ isLast }) => isLast)
    const answered = last < 0 ? requests : requests.slice(0, last + 1)
    return { requests, packets: this.#packets(requests), answered }
  }

  #pick<T>(list: readonly T[]): T {
    return list[Math.floor(this.#numbers() * list.length)]!
  }

  #chance(share: number): boolean {
    return this.#numbers() < share
  }

  #request(id: string): MixRequest {
    const isDirect = this.#front === 'none'
    const plain = { id, isNamed: true, isLast: false }
    const last = { ...plain, isLast: true }
    const bare = { ...last, isNamed: false }
    const turn = this.#numbers()
    if (turn < 0.03) return { ...bare, what: 'garbage', bytes: 'GARBAGE\r\n\r\n', statuses: [400] }
    if (turn < 0.05) return { ...last, what: 'close', ...this.#add(id, 'Connection: close\r\n') }
    if (turn < 0.07) return { ...last, what: 'HTTP/1.0', ...this.#add(id, '', '1.0') }
    if (turn < 0.09) {
      const bytes = this.#write(id, 'GET /livez', `hOsT: ${this.#host}\r\n`)
      return { ...(isDirect ? plain : bare), what: 'two hosts', bytes, statuses: [400] }
    }
    if (turn < 0.12 && isDirect) {
      return { ...bare, what: 'CONNECT', bytes: this.#write(id, 'CONNECT elsewhere:443'), statuses: [404] }
    }
    if (turn < 0.15) {
      const bytes = this.#write(id, 'GET /v1/nodes/connect', webSocket)
      return { ...bare, what: 'WebSocket', bytes, statuses: isDirect ? [101, 400] : [101] }
    }
    if (turn < 0.19) {
      const bytes = this.#write(id, 'GET /v1/nodes/elsewhere', webSocket)
      const statuses = isDirect ? [404, 400] : [404]
      return { ...bare, isLast: isDirect, what: 'refused WebSocket', bytes, statuses }
    }
    if (turn < 0.38) {
      const name = this.#pick(Object.keys(upgrades))
      const { what, ...rest } = this.#ordinary(id, upgrades[name]!)
      return { ...(isDirect ? last : plain), what: `${what} with ${name}`, ...rest }
    }
    return { ...plain, ...this.#ordinary(id, '') }
  }

  /** A request of which nothing but its headers may be unusual. */
  #ordinary(id: string, headers: string): Pick<MixRequest, 'what' | 'bytes' | 'statuses' | 'mayBeLast'> {
    const turn = this.#numbers()
    if (turn < 0.35) return { what: 'add', ...this.#add(id, headers) }
    if (turn < 0.5) {
      const body = JSON.stringify({ queues: ['none'], waitMs: Math.floor(this.#numbers() * 30) })
      return { what: 'claim', bytes: this.#write(id, 'POST /v1/jobs/claim', headers, body), statuses: [200] }
    }
    if (turn < 0.65) {
      // Its body is a request, which must never run.
      const bytes = this.#write(id, 'POST /v1/jobs', headers, this.#hidden())
      return { what: 'hidden', bytes, statuses: [400] }
    }
    if (turn < 0.8) {
      // Answered before its body has come. If that is large, a proxy sends the next client's request right behind it.
      const padding = this.#chance(0.4) ? ' '.repeat(this.#numbers() * 300_000) : ''
      const bytes = this.#write(id, 'POST /nowhere', headers, this.#hidden() + padding)
      // Nginx then may end the connection instead of reading the rest, whatever it said.
      return { what: 'early', bytes, statuses: [404], mayBeLast: this.#front === 'streaming proxy' }
    }
    return { what: 'get', bytes: this.#write(id, 'GET /livez', headers), statuses: [200] }
  }

  #add(id: string, headers: string, version = '1.1'): Pick<MixRequest, 'bytes' | 'statuses'> {
    const body = JSON.stringify({ kind: id })
    const expects = version === '1.1' && this.#chance(0.15) ? 'Expect: 100-continue\r\n' : ''
    const isChunked = version === '1.1' && this.#chance(0.3)
    const sent = isChunked
      ? this.#write(id, 'POST /v1/jobs', headers + expects, undefined, version, chunked(body))
      : this.#write(id, 'POST /v1/jobs', headers + expects, body, version)
    return { bytes: sent, statuses: [201] }
  }

  /** A whole request that adds a job of a kind that no request of a mix adds. */
  #hidden(): string {
    const id = `hidden-${this.#hiddenCount++}`
    return this.#write(id, 'POST /v1/jobs', '', JSON.stringify({ kind: id }))
  }

  #write(id: string, line: string, headers = '', body?: string, version = '1.1', rest = '\r\n'): string {
    const length =
      body === undefined
        ? rest
        : `Content-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`
    return `${line} HTTP/${version}\r\nHost: ${this.#host}\r\nX-Request-Id: ${id}\r\n${headers}${length}`
  }

  #packets(requests: readonly MixRequest[]): readonly Packet[] {
    const all = requests.map(({ bytes }) => bytes).join('')
    const turn = this.#numbers()
    const cuts = new Set<number>()
    if (turn > 0.65)
      for (let left = 1 + this.#numbers() * 6; left > 0; left--) cuts.add(this.#cut(all.length))
    else if (turn > 0.35) {
      let at = 0
      for (const { bytes } of requests) {
        at += bytes.length
        cuts.add(at)
      }
    } else if (turn > 0.2) {
      // Between the head and the body of each.
      for (let at = all.indexOf('\r\n\r\n'); at >= 0; at = all.indexOf('\r\n\r\n', at + 1)) cuts.add(at + 4)
    }
    const ends = [...cuts, all.length].filter((at) => at > 0 && at <= all.length).sort((a, b) => a - b)
    let from = 0
    return [...new Set(ends)].map((end) => {
      const bytes = all.slice(from, end)
      from = end
      return { bytes, waitMs: this.#chance(0.3) ? undefined : Math.floor(this.#numbers() ** 3 * 12) }
    })
  }

  #cut(length: number): number {
    return Math.floor(this.#numbers() * length)
  }
}

function chunked(body: string): string {
  const half = Math.floor(body.length / 2)
  const parts = [body.slice(0, half), body.slice(half)]
  const chunks = parts.map((part) => `${part.length.toString(16)}\r\n${part}\r\n`)
  return `Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n${chunks.join('')}0\r\n\r\n`
}
