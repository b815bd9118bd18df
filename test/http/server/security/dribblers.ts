import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'

/** How an attack by clients that never finish their requests is run, and who is asked meanwhile. */
export interface DribbleOptions {
  readonly url: string
  readonly dribblers: number
  readonly forMs: number
  /** How long each waits before its next byte. */
  readonly everyMs: number
}

export interface Dribbled {
  /** How long good requests took, sorted. */
  readonly goodMs: readonly number[]
  /** Good requests that were not answered with 200. */
  readonly badAnswers: number
  /** Dribblers that the server cut, and those it had to bear at the end. */
  readonly cut: number
  readonly left: number
}

/**
 * Clients that send a byte of their headers, or of a body that they announced, every now and then, and come again when
 * they are cut; and one good client that asks without a pause.
 */
export async function dribble({ url, dribblers, forMs, everyMs }: DribbleOptions): Promise<Dribbled> {
  const { port, host } = new URL(url)
  let isOver = false
  const open = new Set<Socket>()
  let cut = 0
  const begin = (index: number): void => {
    const socket = connect(Number(port), '127.0.0.1')
    const headers = `POST /v1/jobs HTTP/1.1\r\nHost: ${host}\r\nContent-Type: application/json\r\n`
    // Every other one is through with its headers and dribbles its body.
    const start = index % 2 === 0 ? headers : `${headers}Content-Length: 1000\r\n\r\n{`
    const timer = setInterval(() => socket.write(index % 2 === 0 ? 'X' : ' '), everyMs)
    open.add(socket)
    socket.on('error', () => {})
    socket.on('connect', () => socket.write(start))
    socket.resume()
    socket.on('close', () => {
      clearInterval(timer)
      open.delete(socket)
      if (isOver) return
      cut++
      begin(index)
    })
  }
  for (let i = 0; i < dribblers; i++) begin(i)
  const good = await askFor(url, forMs)
  isOver = true
  const left = open.size
  for (const socket of open) socket.destroy()
  return { ...good, cut, left }
}

/** Enough samples for the hundredth percentile; they take longer where the machine pauses now and then. */
const enough = 300

async function askFor(url: string, ms: number): Promise<Pick<Dribbled, 'goodMs' | 'badAnswers'>> {
  const goodMs: number[] = []
  let badAnswers = 0
  const begunAt = performance.now()
  const isShort = (passedMs: number) => passedMs < ms || (passedMs < 4 * ms && goodMs.length < enough)
  while (isShort(performance.now() - begunAt)) {
    const at = performance.now()
    const reply = await fetch(`${url}/v1/queues`)
    await reply.text()
    goodMs.push(performance.now() - at)
    if (reply.status !== 200) badAnswers++
    await sleep(5)
  }
  return { goodMs: goodMs.sort((a, b) => a - b), badAnswers }
}

export function percentile(sorted: readonly number[], share: number): number {
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}
