/** A nack stores the whole failure and sets the time of the retry, on every engine and over HTTP. */
import assert from 'node:assert/strict'
import type { Box } from 'signalbox'
import type { FoundJob, NackOptions } from 'signalbox/jobs'
import { describe } from 'vitest'
import { jobIn, stages } from './stage.ts'

for (const stage of stages()) {
  describe(stage.title, { concurrent: true }, () => {
    stage.story('a nack stores the given error, whatever its shape', async (scene) => {
      const box = await scene.open()
      for (const [error, kept] of [
        [{ error: 'boom' }, { message: 'boom', details: { error: 'boom' } }],
        [{ status: 503 }, { message: '{"status":503}', details: { status: 503 } }],
        [
          { message: 'declined', code: 'E_FUNDS', amount: { minor: 1200 } },
          {
            message: 'declined',
            code: 'E_FUNDS',
            details: { message: 'declined', code: 'E_FUNDS', amount: { minor: 1200 } },
          },
        ],
        [['late', 'lost'], { message: '["late","lost"]', details: ['late', 'lost'] }],
        ['plain', { message: 'plain' }],
        [
          { message: 'plain', code: 'E' },
          { message: 'plain', code: 'E' },
        ],
        [{ error: 'a\0b\ud800' }, { message: 'a\ufffdb\ufffd', details: { error: 'a\ufffdb\ufffd' } }],
      ] as const) {
        const scheduled = await nacked(box, { error, retryInMs: '1h' })
        assert.deepEqual([scheduled.state, scheduled.error], ['scheduled', kept])
        assert.deepEqual((await nacked(box, { error, dead: true })).error, kept)
      }
    })

    stage.story('an object that a handler throws or nacks is stored whole', async (scene) => {
      const box = await scene.open()
      await scene.work(box, {
        handlers: {
          throws() {
            throw { error: 'thrown' }
          },
          nacks: (job) => job.nack({ error: { error: 'said' }, backoff: { baseMs: 600_000, jitter: 0 } }),
        },
      })
      const thrown = await jobIn(box, (await box.jobs.add('throws')).id, 'scheduled')
      assert.deepEqual(thrown.error, { message: 'thrown', details: { error: 'thrown' } })
      const said = await jobIn(box, (await box.jobs.add('nacks')).id, 'scheduled')
      assert.deepEqual(said.error, { message: 'said', details: { error: 'said' } })
      isAbout(waitOf(said), 600_000)
    })

    stage.story('a nack sets the back-off of this failure only', async (scene) => {
      const box = await scene.open()
      const { id } = await box.jobs.add('mail', null, {
        backoff: { baseMs: 7_200_000, factor: 3, jitter: 0, maxMs: 86_400_000 },
      })
      const fails = async (options: NackOptions): Promise<FoundJob> => {
        const [job] = await box.jobs.claim()
        await box.jobs.nack({ id: job!.id, token: job!.token }, options)
        return (await box.jobs.find(id))!
      }
      isAbout(waitOf(await fails({ backoff: { baseMs: 900_000, jitter: 0 } })), 900_000)
      await box.jobs.retry(id)
      const spread = waitOf(await fails({ backoff: { baseMs: 1_000_000, jitter: 0.5 } }))
      assert.ok(spread > 400_000 && spread <= 1_500_000, `${spread}`)
      await box.jobs.retry(id)
      isAbout(waitOf(await fails({ error: 'no' })), 7_200_000)
    })

    stage.story(
      'a nack with both a wait and a back-off is refused, and nothing is written',
      async (scene) => {
        const box = await scene.open()
        const { id } = await box.jobs.add('mail')
        const [job] = await box.jobs.claim()
        for (const wrong of [
          { retryInMs: '1m', backoff: { baseMs: 5 } },
          { handBack: true, backoff: { baseMs: 5 } },
          { snoozeMs: 5, backoff: { baseMs: 5 } },
          { backoff: { baseMs: -1 } },
          { backoff: { baseMs: 5, jitter: 2 } },
          { backoff: { base: 5 } },
          { backoff: 5 },
        ] as unknown as readonly NackOptions[]) {
          await assert.rejects(
            box.jobs.nack(job!, wrong),
            { code: 'invalid_argument' },
            JSON.stringify(wrong),
          )
        }
        assert.equal((await box.jobs.find(id))?.state, 'running')
        await box.jobs.ack(job!)
      },
    )
  })
}

/** A job that was added, claimed and nacked. */
async function nacked(box: Box, options: NackOptions): Promise<FoundJob> {
  const { id } = await box.jobs.add('mail')
  const [job] = await box.jobs.claim()
  assert.equal(job?.id, id)
  await box.jobs.nack(job, options)
  return (await box.jobs.find(id))!
}

/** The time from now until the job runs. The test servers run on this machine, so its clock is theirs. */
function waitOf(job: Pick<FoundJob, 'runAt'>): number {
  return job.runAt - Date.now()
}

function isAbout(actual: number, expected: number): void {
  assert.ok(actual > expected - 60_000 && actual <= expected + 5_000, `${actual} is not about ${expected}`)
}
