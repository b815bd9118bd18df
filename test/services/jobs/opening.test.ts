/** `open` with its URL and options, and the properties of a box. */
import assert from 'node:assert/strict'
import { type OpenOptions, open } from 'signalbox'
import { describe, test } from 'vitest'
import { jobIn, stages } from './stage.ts'

test('an unusable URL or option is refused without showing what may be a secret', async () => {
  for (const url of [
    '',
    'signalbox.db',
    'redis://user:sesame@host',
    'http:x',
    'http://',
    'http://user:sesame@127.0.0.1',
    'https://127.0.0.1/?token=sesame',
    ':memory:',
    5,
    null,
    undefined,
  ]) {
    await assert.rejects(open(url as string), (error: { code: string; message: string }) => {
      assert.equal(error.code, 'invalid_argument')
      assert.doesNotMatch(error.message, /sesame/)
      return true
    })
  }
  for (const options of [
    { namespace: '' },
    { namespace: 'a\0' },
    { migrate: 'yes' },
    { retentionMs: -1 },
    { retentionMs: 'long' },
    { retention: 5 },
    null,
  ] as unknown[])
    await assert.rejects(open('memory:', options as OpenOptions), { code: 'invalid_argument' })
  // A server's client cannot set options of a store, nor the other way round.
  for (const [url, options] of [
    ['http://127.0.0.1:1', { migrate: true }],
    ['http://127.0.0.1:1', { retentionMs: 5 }],
    ['http://127.0.0.1:1', { timeoutMs: 0 }],
    ['http://127.0.0.1:1', { token: 'not\nsesame' }],
    ['memory:', { token: 'sesame' }],
  ] as const) {
    await assert.rejects(
      open(url as string, options as OpenOptions),
      (error: { code: string; message: string }) => {
        assert.equal(error.code, 'invalid_argument')
        assert.doesNotMatch(error.message, /sesame/)
        return true
      },
    )
  }
})

for (const stage of stages()) {
  describe(stage.title, () => {
    stage.story('boxes of different namespaces do not see each other’s jobs', async (scene) => {
      const box = await scene.open()
      const apart = await scene.open({ namespace: `${scene.namespace}-apart` })
      const { id } = await box.jobs.add('mail', 'here', { uniqueKey: 'one' })
      const there = await apart.jobs.add('mail', 'there', { uniqueKey: 'one' })
      assert.equal(there.duplicate, false)
      assert.equal(await apart.jobs.find(id), undefined)
      await apart.jobs.pause('default')
      await scene.work(box, { handlers: { mail: (job) => job.payload } })
      assert.equal((await jobIn(box, id, 'completed')).result, 'here')
      assert.deepEqual(
        (await apart.jobs.list()).items.map(({ id: other, state }) => [other, state]),
        [[there.id, 'ready']],
      )
      await assert.rejects(apart.jobs.cancel(id), { code: 'not_found' })
      await box.ping()
    })

    stage.story('a closed box refuses calls, and closing it again does nothing', async (scene) => {
      const box = await scene.open()
      await box.close()
      await box.close()
      for (const ask of [
        () => box.ping(),
        () => box.jobs.add('mail'),
        () => box.jobs.claim(),
        () => box.jobs.find('a'),
        () => box.jobs.stats(),
      ])
        await assert.rejects(ask, { code: 'closed' })
    })
  })
}
