/**
 * A lock server process that is made to be killed: it opens the store, sweeps it, and makes the calls that arrive as lines
 * of JSON. Started by lock-servers.ts with its options as JSON.
 */
import { createServer, type Socket } from 'node:net'
import { openLocks } from '../../conformance/locks/opening.ts'
import { keepCompiled } from '../../support/compiled.ts'
import { describe } from '../recording-store.ts'
import { hearLines } from '../text-lines.ts'
import { historyTimes } from './lock-history.ts'
import type { LockAnswer, LockCall } from './lock-operation.ts'
import { takeStep } from './lock-step.ts'

export interface LockServerOptions {
  readonly url: string
  readonly namespace: string
}

/** The first wait queue of a connection is its name; each that follows is one of these. */
export type LockRequest = { readonly id: number } & (
  | { readonly queue: string; readonly call: LockCall }
  /** Answered when that connection is closed and nothing that came on it is under way. */
  | { readonly settle: string }
)

export interface LockReply {
  readonly id: number
  readonly answer?: LockAnswer
  readonly error?: string
}

const sweepMs = 50
const { url, namespace } = JSON.parse(process.argv[2]!) as LockServerOptions
const { locks } = await openLocks(url, namespace)
keepCompiled()

/** Connections by name, each with a promise for when it is closed and all that came on it is done. */
const connections = new Map<string, Promise<void>>()

function serve(socket: Socket): void {
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()))
  const underWay = new Set<Promise<void>>()
  let isNamed = false
  socket.on('error', () => undefined)
  hearLines(socket, (text) => {
    if (!isNamed) {
      isNamed = true
      const settled = closed.then(async () => void (await Promise.all(underWay)))
      connections.set(text, settled)
      return
    }
    const request = JSON.parse(text) as LockRequest
    const done = answer(request).then((reply) => {
      if (socket.writable) socket.write(`${JSON.stringify({ id: request.id, ...reply })}\n`)
      underWay.delete(done)
    })
    if (!('settle' in request)) underWay.add(done)
  })
}

async function answer(request: LockRequest): Promise<Omit<LockReply, 'id'>> {
  if ('settle' in request) {
    await connections.get(request.settle)
    return {}
  }
  try {
    return { answer: await takeStep(locks, request.queue, request.call, historyTimes) }
  } catch (error) {
    return { error: describe(error) }
  }
}

async function sweep(): Promise<void> {
  // A store that is busy now is swept the next time.
  await locks.sweep(100, historyTimes).catch(() => undefined)
  setTimeout(sweep, sweepMs)
}

void sweep()
const server = createServer({ noDelay: true }, serve)
server.listen(0, '127.0.0.1', () => console.log(`listening ${(server.address() as { port: number }).port}`))
