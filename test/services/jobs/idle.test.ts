/** An idle worker asks its database seldom: at most twice a second on Postgres, counted on the wire. */
import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Box, open } from 'signalbox'
import { describe, test } from 'vitest'
import { openWiretap } from '../../../bench/modules/jobs/wiretap.ts'
import { hasService, ownPostgres } from '../../support/services/own.ts'

/** Loops may all send something at either end of the time. */
const ends = 6

describe.skipIf(!hasService('postgres'))('postgres', { timeout: 60_000, concurrent: true }, () => {
  test("an idle worker sends at most two statements a second, and still gets an operator's requests", async () => {
    await using idle = await startIdle()
    await idle.expectAtMost(2, 12)
    const { worker, operator } = idle
    await operator.jobs.quietWorker('ada')
    const beganAt = performance.now()
    while (worker.mode !== 'quiet' && performance.now() - beganAt < 5_000) await sleep(20)
    assert.equal(worker.mode, 'quiet', 'it hears without a poll')
  })

  test('a worker sends at most six statements a second while a job waits for another', async () => {
    await using idle = await startIdle(async ({ jobs }) => {
      const first = await jobs.add('mail', null, { delayMs: '1h' })
      await jobs.add('mail', null, { after: first.id })
    })
    await idle.expectAtMost(6, 12)
  })
})

/** A worker that has settled in, and an operator elsewhere. */
async function startIdle(prepare: (box: Box) => Promise<void> = async () => undefined) {
  const stack = new AsyncDisposableStack()
  const database = stack.use(await ownPostgres())
  const tap = stack.use(await openWiretap(database.url))
  const box = stack.use(await open(tap.url, { migrate: true }))
  const operator = stack.use(await open(database.url))
  await prepare(box)
  const worker = box.jobs.worker({ workerId: 'ada', handlers: { mail: () => undefined } })
  await worker.start()
  await sleep(2_000)
  return {
    worker,
    operator,
    async expectAtMost(perSecond: number, seconds: number) {
      const before = tap.count
      await sleep(seconds * 1_000)
      const count = tap.count - before
      assert.ok(count <= perSecond * seconds + ends, `${count} statements in ${seconds} s`)
      assert.ok(count >= seconds / 2, `${count} statements in ${seconds} s: it polls`)
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  }
}
