/** An idle worker asks its database seldom: at most twice a second on Postgres, counted on the wire. */
import assert from 'node:assert/strict'
import { setTimeout as sleep } from 'node:timers/promises'
import { open } from 'signalbox'
import { test } from 'vitest'
import { openWiretap } from '../../../bench/modules/jobs/wiretap.ts'
import { hasService, ownPostgres } from '../../support/services/own.ts'

const seconds = 12
/** Two a second, plus as many as all loops may send at once, at either end. */
const atMost = 2 * seconds + 6

test.skipIf(!hasService('postgres'))(
  "postgres: an idle worker sends at most two statements a second, and still gets an operator's requests",
  { timeout: 60_000 },
  async () => {
    await using database = await ownPostgres()
    await using tap = await openWiretap(database.url)
    await using box = await open(tap.url, { migrate: true })
    await using operator = await open(database.url)
    const worker = box.jobs.worker({ workerId: 'ada', handlers: { mail: () => undefined } })
    await worker.start()
    await sleep(2_000)
    const before = tap.count
    await sleep(seconds * 1_000)
    const count = tap.count - before
    assert.ok(count <= atMost, `${count} statements in ${seconds} s`)
    assert.ok(count >= seconds / 2, `${count} statements: it polls`)

    await operator.jobs.quietWorker('ada')
    const beganAt = performance.now()
    while (worker.mode !== 'quiet' && performance.now() - beganAt < 5_000) await sleep(20)
    assert.equal(worker.mode, 'quiet', 'it hears without a poll')
  },
)
