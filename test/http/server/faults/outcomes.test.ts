import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { test } from 'vitest'
import { createWorkplace, type Serving } from '../../../cli/command.ts'

interface Outcome {
  readonly status: number
  readonly id: string | undefined
}

const unknown: Outcome = { status: 0, id: undefined }

/** Adds a job under a key; a cut connection is an outcome like any other. */
async function add({ url }: Pick<Serving, 'url'>, key: string, kind: string): Promise<Outcome> {
  try {
    const headers = { 'content-type': 'application/json', 'idempotency-key': key }
    const reply = await fetch(`${url}/v1/jobs`, { method: 'POST', headers, body: JSON.stringify({ kind }) })
    const { id } = (await reply.json()) as { id?: string }
    return { status: reply.status, id }
  } catch {
    return unknown
  }
}

async function readyCount({ url }: Pick<Serving, 'url'>): Promise<number> {
  const reply = await fetch(`${url}/v1/queues`)
  const { items } = (await reply.json()) as { items: { ready: number }[] }
  return items.reduce((sum, { ready }) => sum + ready, 0)
}

test('after kill -9 during requests the same keys return the first outcomes, and nothing happens twice', {
  timeout: 60_000,
}, async () => {
  using place = createWorkplace()
  const flags = ['--log-level=error']
  let jobs = 0
  for (let round = 0; round < 2; round++) {
    const keys = Array.from({ length: 30 }, () => randomUUID())
    let outcomes: Promise<Outcome>[]
    {
      await using server = await place.serve(flags)
      outcomes = keys.map((key, i) => add(server, key, `${round}-${i}`))
      // Some are answered by now, some are on their way, some not yet read.
      await Promise.race(outcomes)
      server.kill('SIGKILL')
      await server.ended
    }
    const first = await Promise.all(outcomes)
    await using server = await place.serve(flags)
    const second = await Promise.all(keys.map((key, i) => add(server, key, `${round}-${i}`)))
    for (const [i, { status, id }] of second.entries()) {
      assert.equal(status, 201)
      if (first[i]!.status === 201) assert.equal(id, first[i]!.id, 'what was answered is durable')
    }
    jobs += keys.length
    assert.equal(await readyCount(server), jobs)
    server.kill('SIGTERM')
    assert.equal((await server.ended).code, 0)
  }
})

test('one key sent at once to two servers on one file is executed once with one answer', {
  timeout: 60_000,
}, async () => {
  using place = createWorkplace()
  await using one = await place.serve(['--log-level=error'])
  await using two = await place.serve(['--log-level=error'])
  for (let round = 1; round <= 20; round++) {
    const key = randomUUID()
    const outcomes = await Promise.all([one, two, one, two].map((server) => add(server, key, 'mail')))
    const done = outcomes.filter(({ status }) => status === 201)
    // A request that comes during the first may get a conflict, and no other error.
    for (const { status } of outcomes) assert.ok(status === 201 || status === 409, String(status))
    assert.equal(new Set(done.map(({ id }) => id)).size, 1)
    assert.equal(await readyCount(one), round)
  }
})
