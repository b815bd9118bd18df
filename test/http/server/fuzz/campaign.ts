import assert from 'node:assert/strict'
import { errorCodes } from '../../../../src/core/errors.ts'
import { routes } from '../../../../src/http/contract/index.ts'
import { createNumbers } from '../../../support/random.ts'
import { RawClient, type RawReply } from './raw-client.ts'
import { fuzz } from './requests.ts'

/** What a run of the campaign saw. */
export interface FuzzCounts {
  readonly requests: number
  readonly refused: number
  readonly taken: number
  readonly cut: number
  /** Of the neighbour that asks only for `/livez` all the time. */
  readonly neighbourP99Ms: number
}

/**
 * Sends fuzzed requests over several connections and looks at every answer: it is documented, it is a problem document
 * when it refuses, and none is the server's own failure. Meanwhile a neighbour asks for `/livez`.
 */
export async function fuzzServer(
  port: number,
  { seed, requests, connections = 32 }: { seed: number; requests: number; connections?: number },
): Promise<FuzzCounts> {
  const counts = { requests: 0, refused: 0, taken: 0, cut: 0 }
  const over = new AbortController()
  const neighbour = watchNeighbour(port, over.signal)

  async function send(number: number): Promise<void> {
    const numbers = createNumbers(seed * 1_000 + number)
    using client = new RawClient(port)
    for (let sent = number; sent < requests; sent += connections) {
      const route = routes[Math.floor(numbers() * routes.length)]!
      const { bytes, framing, how } = fuzz(route, port, numbers)
      counts.requests++
      if (framing === 'abandoned') {
        await client.abandon(bytes)
        counts.cut++
        continue
      }
      const reply = await client.ask(bytes)
      if (framing === 'broken') client.hangUp()
      if (reply === 'closed') {
        assert.equal(framing, 'broken', `seed ${seed}: no answer to ${how}`)
        counts.cut++
      } else {
        judge(reply, how, seed)
        if (reply.status < 400) counts.taken++
        else counts.refused++
      }
    }
  }

  try {
    await Promise.all(Array.from({ length: connections }, (_, number) => send(number)))
  } finally {
    over.abort()
  }
  assert.equal(({} as { polluted?: unknown }).polluted, undefined)
  return { ...counts, neighbourP99Ms: await neighbour }
}

function judge({ status, head, body }: RawReply, how: string, seed: number): void {
  const where = `seed ${seed}: ${how} was answered with ${status} ${body.slice(0, 300)}`
  assert.ok(status >= 200 && status < 500, where)
  if (status < 400) return
  assert.match(head, /content-type: application\/problem\+json/, where)
  // A HEAD is answered without its body.
  if (body === '') {
    assert.match(how, /method/, where)
    return
  }
  const problem = JSON.parse(body) as { code: keyof typeof errorCodes; status: number; detail: string }
  assert.equal(errorCodes[problem.code]?.status, status, where)
  assert.equal(problem.status, status, where)
  assert.ok(problem.detail.length > 0 && problem.detail.length < 2_000, where)
  assert.doesNotMatch(body, /\bat .*\.ts:|node_modules|SELECT |INSERT |SQLITE/, where)
}

/** The 99th percentile of how long a plain request took while all this went on. */
async function watchNeighbour(port: number, signal: AbortSignal): Promise<number> {
  const request = Buffer.from(`GET /livez HTTP/1.1\r\nHost: 127.0.0.1:${port}\r\n\r\n`)
  const took: number[] = []
  using client = new RawClient(port)
  while (!signal.aborted) {
    const sentAt = performance.now()
    const reply = await client.ask(request)
    assert.ok(reply !== 'closed' && reply.status === 200, 'the neighbour is served')
    took.push(performance.now() - sentAt)
    await new Promise((resolve) => setTimeout(resolve, 5))
  }
  took.sort((a, b) => a - b)
  return took[Math.floor(took.length * 0.99)] ?? 0
}
