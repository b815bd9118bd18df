import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { test } from 'vitest'
import type { ClaimedRecord } from '../job-store.ts'
import { Fetcher } from './fetcher.ts'
import { resolveWorkerOptions } from './worker-options.ts'

/** A fetcher with quick handlers, and a store that answers a claim when the test says so. */
async function aStage() {
  const claims: { limit: number; answer(count: number): void }[] = []
  const received: string[] = []
  const load = { isOpen: true, running: 0, buffered: 0, settling: 0 }
  const fetcher = new Fetcher({
    store: {
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
  for (let nth = 0; nth < 1_000; nth++) fetcher.handlerEnded()
  /** The first claim comes back full, so more is likely. */
  const first = fetcher.step()
  claims[0]!.answer(claims[0]!.limit)
  assert.equal(await first, 'more')
  return { fetcher, claims, received, load }
}

test('the fetcher sends no second claim while one is in flight', async () => {
  const { fetcher, claims } = await aStage()
  void fetcher.step()
  fetcher.requestClaim()
  assert.equal(claims.length, 2)
})

test('jobs of an abandoned claim are still received, and the next claim does not wait', async () => {
  const { fetcher, claims, received } = await aStage()
  void fetcher.step()
  void fetcher.step()
  claims[2]!.answer(3)
  await sleep(1)
  assert.deepEqual(received.at(-1), '3 of 2')
  claims[1]!.answer(2)
  await sleep(1)
  assert.deepEqual(received.at(-1), '2 of 1')
})
