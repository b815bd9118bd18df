/**
 * Workers hear of new jobs by wake-ups, and by polling only where no wake-up reaches them. These workers poll once an
 * hour: every job they run came with a wake-up.
 */
import type { Box } from 'signalbox'
import type { NackOptions, Worker } from 'signalbox/jobs'
import { describe } from 'vitest'
import { aborted, deferred, jobIn, type Scene, stages } from './stage.ts'

const rarely = { pollMs: '1h' as const }

for (const stage of stages()) {
  /** Another process, as far as wake-ups reach: MariaDB has none that leave theirs. */
  const openElsewhere = (scene: Scene, box: Box) =>
    stage.name === 'mariadb' && !stage.isRemote ? box : scene.openAnother(box)

  describe(stage.title, { concurrent: true }, () => {
    stage.story(
      'a new worker always learns of a job that is added right after its start',
      async (scene) => {
        const box = await scene.open()
        for (let round = 0; round < 10; round++) {
          const other = await openElsewhere(scene, box)
          const worker = await scene.work(other, { ...rarely, handlers: { mail: () => 'sent' } })
          // Now before it has looked, now while it starts to listen, now while it listens.
          if (round > 0) await new Promise((resolve) => setTimeout(resolve, 2 ** round / 8))
          const { id } = await box.jobs.add('mail')
          await jobIn(box, id, 'completed')
          await worker.stop()
        }
      },
      // Ten times the limit of `jobIn`, which fails first if a wake-up is missed.
      60_000,
    )

    stage.story('jobs that a stopping worker hands back wake waiting workers', async (scene) => {
      const box = await scene.open()
      const other = await openElsewhere(scene, box)
      const isHeld = deferred()
      const leaving = await scene.work(other, {
        ...rarely,
        handlers: {
          async mail(_, { signal }) {
            isHeld.resolve()
            await aborted(signal)
          },
        },
      })
      const { id } = await box.jobs.add('mail')
      await isHeld.promise
      await workAndWait(scene, box)
      await leaving.stop({ graceMs: 0 })
      await jobIn(box, id, 'completed')
    })

    stage.story('a job that a call hands back wakes waiting workers', async (scene) => {
      const box = await scene.open()
      const other = await openElsewhere(scene, box)
      for (const how of [{ handBack: true }, { retryInMs: 0 }]) await giveBack(scene, box, other, how)
    })

    stage.story('a snoozed job wakes waiting workers when it is due', async (scene) => {
      const box = await scene.open()
      // Nothing is written when a job becomes due, so a process that shares only a file gets no wake-up.
      const other = stage.name === 'sqlite' && !stage.isRemote ? box : await openElsewhere(scene, box)
      for (const how of [{ retryInMs: 300 }, { snoozeMs: 100 }]) await giveBack(scene, box, other, how)
    })
  })
}

/** A worker that has looked, found nothing, and listens for wake-ups. */
async function workAndWait(scene: Scene, box: Box): Promise<Worker> {
  const worker = await scene.work(box, { ...rarely, handlers: { mail: () => 'sent' } })
  await new Promise((resolve) => setTimeout(resolve, 200))
  return worker
}

/** One box claims a job and hands it back in this way, while a worker of the other waits for it. */
async function giveBack(scene: Scene, box: Box, other: Box, how: NackOptions): Promise<void> {
  const { id } = await box.jobs.add('mail')
  const [held] = await other.jobs.claim()
  const worker = await workAndWait(scene, box)
  const { token } = held!
  // A script keeps only these two; with more fields, no look-up would be needed.
  await other.jobs.nack(how.handBack ? { id, token } : held!, how)
  await jobIn(box, id, 'completed')
  await worker.stop()
}
