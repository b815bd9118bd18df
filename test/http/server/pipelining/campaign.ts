import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { createNumbers } from '../../../support/random.ts'
import type { Stage } from '../stage.ts'
import { type Front, type Mix, MixMaker } from './mixes.ts'
import { type RawAnswer, RawConnection } from './raw-connection.ts'

export interface PipeliningOptions {
  readonly seed: number
  readonly mixes: number
  /** Where the mixes are sent. @default the stage's own port */
  readonly port?: number
  /** @default 'none' */
  readonly front?: Front
  readonly connections?: number
}

export interface PipeliningCounts {
  readonly mixes: number
  readonly requests: number
  readonly answers: number
  /** Requests that the server refused because it was late. */
  readonly overloaded: number
  readonly jobs: number
}

/**
 * Sends mixes of pipelined requests, with and without `Upgrade`, over separate connections. Each connection must answer
 * as the model says, in order, and at the end the store must have the jobs that were answered with 201: no request is
 * lost, none is invented, none is out of order.
 */
export async function sendMixes(
  stage: Stage,
  { seed, mixes, front = 'none', connections = 24, ...options }: PipeliningOptions,
): Promise<PipeliningCounts> {
  const { host, port: ownPort } = new URL(stage.url)
  const port = options.port ?? Number(ownPort)
  const counts = { mixes: 0, requests: 0, answers: 0, overloaded: 0 }
  const added: string[] = []

  async function send(number: number): Promise<void> {
    const maker = new MixMaker(host, front, createNumbers(seed * 1_000 + number))
    for (let sent = number; sent < mixes; sent += connections) {
      const mix = maker.make(`m${seed}-${sent}`)
      const answers = await exchange(port, front, mix, seed)
      for (const { status, id } of answers)
        if (status === 201) added.push(id!)
        else if (status === 503) counts.overloaded++
      counts.mixes++
      counts.requests += mix.requests.length
      counts.answers += mix.answered.length
    }
  }

  await Promise.all(Array.from({ length: connections }, (_, number) => send(number)))
  const found = await kindsOf(stage)
  // Sorted, so that a job that was added twice is seen.
  assert.deepEqual(
    found.sort(),
    added.sort(),
    `seed ${seed}: the jobs in the store, and those that were answered`,
  )
  return { ...counts, jobs: added.length }
}

/** A lost answer never comes. On a machine with ten times more work than it can do, an answer took 19 s. */
const answerMs = 60_000

/** Sends one mix, and returns its answers. */
async function exchange(
  port: number,
  front: Front,
  { packets, requests, answered }: Mix,
  seed: number,
): Promise<readonly RawAnswer[]> {
  using connection = new RawConnection(port)
  const shown = () =>
    `seed ${seed}: ${JSON.stringify({
      sent: requests.map(({ what }) => what),
      packets: packets.map(({ bytes }) => bytes.length),
      answers: connection.answers.map(({ status, id }) => `${status} ${id}`),
      expected: answered.map(({ id, statuses }) => `${statuses.join('/')} ${id}`),
      error: connection.error,
      rest: connection.rest.slice(0, 200),
    })}`
  for (const { bytes, waitMs } of packets) {
    connection.send(bytes)
    if (waitMs !== undefined) await sleep(waitMs)
  }
  let expected = answered
  try {
    const { length } = await connection.comes(answered.length, answerMs)
    if (connection.isClosed && answered[length - 1]?.mayBeLast) expected = answered.slice(0, length)
    // What became a WebSocket stays open.
    else if (answered.at(-1)!.isLast && connection.answers.at(-1)?.status !== 101)
      await connection.closes(answerMs)
  } catch (error) {
    throw new Error(`${error}; ${shown()}`)
  }
  assert.equal(connection.answers.length, expected.length, shown())
  // The server itself never resets a connection while its client can still have bytes on their way.
  if (front === 'none') assert.equal(connection.error, undefined, shown())
  for (const [index, { status, id }] of connection.answers.entries()) {
    const request = answered[index]!
    // A server that is late answers new work with 503, in its turn, and does not process it.
    assert.ok(request.statuses.includes(status) || (status === 503 && request.isNamed), shown())
    assert.equal(id, request.isNamed ? request.id : undefined, shown())
  }
  if (connection.answers.at(-1)!.status !== 101) assert.equal(connection.rest, '', shown())
  return connection.answers
}

async function kindsOf({ ask }: Stage): Promise<string[]> {
  const kinds: string[] = []
  let cursor: string | undefined
  for (;;) {
    const page = `/v1/jobs?limit=500${cursor === undefined ? '' : `&cursor=${cursor}`}`
    const { status, body } = await ask('GET', page)
    if (status === 503) {
      await sleep(100)
      continue
    }
    for (const { kind } of body.items) kinds.push(kind)
    cursor = body.cursor ?? undefined
    if (cursor === undefined) return kinds
  }
}
