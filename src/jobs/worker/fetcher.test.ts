import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { test } from 'vitest'
import type { ClaimedRecord } from '../job-store.ts'
import { Fetcher } from './fetcher.ts'
import { resolveWorkerOptions } from './worker-options.ts'

/** A fetcher whose handlers are quick, and a store that answers a claim when it is told to. */
async function aStage({ claimsInOrder = true } = {}) {
  const claims: { limit: number; answer(count: number): void }[] = []
  const received: string[] = []
  const load = { isOpen: true, running: 0, buffered: 0, settling: 0 }
  const fetcher = new Fetcher({
    store: {
      claimsInOrder,
      claim: ({ limit }) =>
        new Promise((resolve) => {
          const nr = claims.length
          const answer = (count: number) =>
            resolve(Array.from({ length: count }, () => ({ id: `of ${nr}` }) as ClaimedRecord))
          claims.push({ limit, answer })
        }),
    },
    options: resolveWorkerOptions({ handlers: { mail: () => 'sent' }, prefetch: 1_000, concurrency: 100 }),
    notifier: { wake: () => undefined },
    load: () => load,
    receive: (records) => received.push(`${records.length} ${records[0]?.id}`),
  })
  await sleep(5)
  for (let nth = 0; nth < 1_000; nth++) fetcher.ended()
  /** The first claim comes back full, so more is likely. */
  const first = fetcher.step()
  claims[0]!.answer(claims[0]!.limit)
  assert.equal(await first, 'more')
  return { fetcher, claims, received, load }
}

test('with room for a whole claim more it is sent before the one under way is answered, and taken in order', async () => {
  const { fetcher, claims, received } = await aStage()
  const step = fetcher.step()
  assert.deepEqual(
    claims.map(({ limit }) => limit),
    [500, 500, 500],
  )
  claims[2]!.answer(500)
  claims[1]!.answer(500)
  assert.equal(await step, 'more')
  await fetcher.step()
  assert.deepEqual(received, ['500 of 0', '500 of 1', '500 of 2'])
})

test('it is sent as soon as there is room, and never more than fits', async () => {
  const { fetcher, claims, load } = await aStage()
  load.buffered = 101
  void fetcher.step()
  fetcher.askForMore()
  assert.equal(claims.length, 2)
  load.buffered = 100
  fetcher.askForMore()
  fetcher.askForMore()
  assert.equal(claims.length, 3)
})

test('a store that does not carry claims out in order is asked one by one', async () => {
  const { fetcher, claims } = await aStage({ claimsInOrder: false })
  void fetcher.step()
  fetcher.askForMore()
  assert.equal(claims.length, 2)
})

test('behind a step that was given up nothing is waited for, and what comes of it is received all the same', async () => {
  const { fetcher, claims, received } = await aStage()
  void fetcher.step()
  void fetcher.step()
  assert.deepEqual(
    claims.map(({ limit }) => limit),
    [500, 500, 500, 500, 500],
  )
  claims[2]!.answer(3)
  await sleep(1)
  assert.deepEqual(received.at(-1), '3 of 2')
})

test('what was sent ahead is received when it closes', async () => {
  const { fetcher, claims, received, load } = await aStage()
  void fetcher.step()
  load.isOpen = false
  const closed = fetcher.close()
  claims[2]!.answer(2)
  await closed
  assert.deepEqual(received.at(-1), '2 of 2')
})
