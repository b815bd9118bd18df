/** Jobs whose payloads and results are encrypted. */
import assert from 'node:assert/strict'
import { createAesSealer } from 'signalbox'
import { describe } from 'vitest'
import { jobIn, stages } from './stage.ts'

for (const stage of stages()) {
  describe(stage.title, { concurrent: true }, () => {
    stage.story('results of different kinds open again when one claim took their jobs', async (scene) => {
      const sealer = createAesSealer({ keys: { k1: new Uint8Array(32).fill(7) }, current: 'k1' })
      const box = await scene.open({ jobs: { sealer } })
      const kinds = ['mail', 'charge', 'report']
      const added = await box.jobs.addMany(kinds.map((kind) => ({ kind, payload: kind })))
      await scene.work(box, {
        handlers: Object.fromEntries(
          kinds.map((kind) => [kind, ({ payload }: { payload: string }) => payload]),
        ),
      })
      for (const [at, { id }] of added.entries())
        assert.equal((await jobIn(box, id, 'completed')).result, kinds[at])
    })
  })
}
