import assert from 'node:assert/strict'
import { test } from 'vitest'
import { fakeServer, json, problem, type Script } from '../../../test/http/client/fake-server.ts'
import { isSignalboxError } from '../../core/errors.ts'
import { createClient } from './index.ts'

const turn = {
  operation: 'deploy',
  resource: 'eu-1',
  node: 'a',
  requestId: 'a',
  token: 7,
  outcome: 'success',
} as const

/** How a release ended on a server that answers by the script, and how often it was said. */
async function releaseOn(script: Script): Promise<{ ended: string; tries: number }> {
  await using server = await fakeServer(script)
  const client = createClient(server.url)
  const ended = await client.locks.release(turn).then(
    ({ next }) => `next ${next}`,
    (error: unknown) => (isSignalboxError(error) ? error.code : String(error)),
  )
  return { ended, tries: server.seen.length }
}

test('a release that an overloaded server refused is sent again', async () => {
  const outcome = await releaseOn((_, response, nth) =>
    nth < 2 ? problem(response, 429, 'too_many') : json(response, { next: 'b' }),
  )
  assert.deepEqual(outcome, { ended: 'next b', tries: 3 })
})

test('a turn that had ended before a refused release was repeated gives lease_lost', async () => {
  const outcome = await releaseOn((_, response, nth) =>
    nth === 0 ? problem(response, 429, 'too_many') : problem(response, 409, 'lease_lost'),
  )
  assert.deepEqual(outcome, { ended: 'lease_lost', tries: 2 })
})

test('a turn that had ended before a lost answer was repeated gives commit_unknown', async () => {
  const outcome = await releaseOn((_, response, nth) => {
    if (nth === 0) response.destroy()
    else problem(response, 409, 'lease_lost')
  })
  assert.deepEqual(outcome, { ended: 'commit_unknown', tries: 2 })
})
