/** Searches for jobs, and bulk operations on all found jobs. */
import assert from 'node:assert/strict'
import { describe } from 'vitest'
import { stages, until } from './stage.ts'

for (const stage of stages()) {
  describe(stage.title, () => {
    stage.story('a search finds jobs by their fields and by text in them, page by page', async (scene) => {
      const { jobs } = await scene.open()
      const added = await jobs.addMany(
        Array.from({ length: 130 }, (_, n) => ({
          kind: n % 2 === 0 ? 'mail' : 'sms',
          queue: n % 3 === 0 ? 'eu' : 'us',
          payload: { order: { id: n }, name: n === 77 ? 'Änne Lee 😀' : 'Bob' },
          tags: n % 10 === 0 ? ['vip'] : [],
        })),
      )
      const ids = added.map(({ id }) => id)
      const find = async (search: string) => {
        const { items, stopped, cursor } = await jobs.list({ search, limit: 500 })
        assert.deepEqual([stopped, cursor], [null, null])
        return items.map(({ id }) => ids.indexOf(id))
      }
      assert.deepEqual(await find('"ÄNNE lee 😀"'), [77])
      assert.deepEqual(await find('payload.name:"Änne Lee 😀" kind:sms'), [77])
      assert.deepEqual(await find('tag:vip kind:mail queue:eu'), [120, 90, 60, 30, 0])
      assert.deepEqual(await find(`id:${ids[7]} queue:us state:ready`), [7])
      assert.deepEqual(await find('created<-1h'), [])

      const pages: number[] = []
      for (let cursor: string | null | undefined; cursor !== null; ) {
        const page = await jobs.list({ search: 'kind:mail -queue:eu', limit: 9, cursor })
        pages.push(...page.items.map(({ id }) => ids.indexOf(id)))
        cursor = page.cursor
      }
      const expected = ids.map((_, n) => n).filter((n) => n % 2 === 0 && n % 3 !== 0)
      assert.deepEqual(pages, expected.toReversed())
    })

    stage.story('a bulk retry, cancel or delete of found jobs reports how far it is', async (scene) => {
      const { jobs } = await scene.open()
      await jobs.addMany(Array.from({ length: 70 }, (_, n) => ({ kind: 'mail', payload: n })))
      for (const job of await jobs.claim({ limit: 60 })) await jobs.nack(job, { dead: true, error: 'relay' })
      const run = async (action: 'retry' | 'cancel' | 'delete', search: string) => {
        const { id } = await jobs.bulk({ action, search })
        const ended = async () => (await jobs.bulkOperation(id))?.state !== 'running'
        await until('the operation has ended', ended, 60_000)
        const { state, matched, done, skipped } = (await jobs.bulkOperation(id))!
        return { state, matched, done, skipped }
      }
      assert.equal((await jobs.bulk({ action: 'retry', search: 'error:RELAY', dryRun: true })).matched, 60)
      const all = { state: 'completed', skipped: 0 }
      assert.deepEqual(await run('retry', 'error:relay state:dead'), { ...all, matched: 60, done: 60 })
      assert.deepEqual(await run('cancel', 'payload:6*'), { ...all, matched: 11, done: 11 })
      assert.deepEqual(await run('delete', '-state:cancelled'), { ...all, matched: 59, done: 59 })
      const left = (await jobs.list({ limit: 500 })).items
      assert.deepEqual([left.length, new Set(left.map(({ state }) => state))], [11, new Set(['cancelled'])])
    })
  })
}
