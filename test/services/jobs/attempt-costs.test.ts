/** A first attempt that succeeds costs nothing extra: its statements touch no table of attempts. */
import assert from 'node:assert/strict'
import { describe, test } from 'vitest'
import { candidates, type EngineName } from '../../conformance/candidates.ts'
import { leaseOf, longMs, runningJob, settleOne, verdictOf } from '../../conformance/jobs/making.ts'

const engines: readonly EngineName[] = ['sqlite', 'postgres', 'mariadb']

for (const candidate of candidates().filter(({ name }) => engines.includes(name))) {
  describe(candidate.title, () => {
    const sql = candidate.sql!

    test('attempts that do not fail never touch the table of attempts', async () => {
      await using own = await sql.ownDatabase()
      await using backend = await candidate.open({ url: own.url })
      const claim = (queue: string) => runningJob(backend, { queue })
      const jobs = {
        settled: [await claim('q1'), await claim('q2')],
        ...{ transacted: await claim('q3'), acked: await claim('q4'), handedBack: await claim('q5') },
        ...{ snoozed: await claim('q6'), cancelled: await claim('q7'), failed: await claim('q8') },
      }
      await using caller = await sql.connect(own.url)
      await caller.exec('DROP TABLE job_attempt')

      const verdicts = jobs.settled.map((job) => verdictOf(job, { result: '{"ok":true}', ranMs: 5 }))
      assert.deepEqual(await backend.jobs.settle(verdicts), [true, true])
      await backend.jobs.transact(async () => verdictOf(jobs.transacted), { timeoutMs: longMs })
      await caller.begin()
      assert.equal(await backend.jobs.settleIn(caller.tx, verdictOf(jobs.acked)), true)
      await caller.commit()
      assert.equal(await settleOne(backend, jobs.handedBack, { state: 'ready', attempt: 0 }), true)
      assert.equal(
        await settleOne(backend, jobs.snoozed, { state: 'scheduled', attempt: 0, delayMs: 5 }),
        true,
      )
      assert.equal(await settleOne(backend, jobs.cancelled, { state: 'cancelled', error: '{}' }), true)
      assert.equal((await backend.jobs.renew([leaseOf(jobs.failed)], longMs)).length, 1)
      // A failure needs the table: so the test would notice.
      await assert.rejects(settleOne(backend, jobs.failed, { state: 'dead', error: '{"message":"boom"}' }))
    })
  })
}
