import assert from 'node:assert/strict'
import { test } from 'vitest'
import { within } from '../../../test/support/deadline.ts'
import type { Engine } from '../engine.ts'
import { TaskFeed, TaskReads } from './task-reads.ts'

test('a task that this process claims while it reads the store is not missed', async () => {
  const feed = new TaskFeed()
  const claims = new Map<string, object>()
  const views = new Map<string, object>()
  const engine = { feed, claims, registry: { task: (id: string) => views.get(id) }, now: () => 0 }
  const record = {
    ...{ id: 't', queue: 'signalbox.dispatch', state: 'running', attempt: 1, createdAt: 0, finishedAt: null },
    ...{ payload: '{"service":"nmt"}', result: null, error: null },
  }
  let reads = 0
  const logs = {
    async progress() {
      // At the second look the other server has let go of it, and it runs here before this is answered.
      if (++reads === 2) {
        claims.set('t', { attempt: 1, spec: { service: 'nmt' }, submittedAt: 0, progress: null })
        views.set('t', { status: 'running', nodeId: 'n' })
        feed.publish({ taskId: 't', status: 'running', attempt: 1, nodeId: 'n', at: 0 })
      }
      return []
    },
  }
  const jobs = { find: async () => record }
  const reader = new TaskReads({ ...engine, jobs, logs } as unknown as Engine)
  const leaving = new AbortController()
  const events = reader.watch('t', leaving.signal)
  assert.equal((await events.next()).value?.status, 'waiting')
  const { value } = await within(3_000, 'the news', events.next())
  assert.deepEqual([value?.status, value?.nodeId], ['running', 'n'])
  leaving.abort()
  assert.equal((await events.next()).done, true)
})

test('a page of all tasks costs one read of the page and one of the progress on other servers', async () => {
  const engine = {
    feed: new TaskFeed(),
    claims: new Map(),
    registry: { task: () => undefined },
    now: () => 0,
  }
  const records = Array.from({ length: 51 }, (_, number) => ({
    ...{ id: `t${99 - number}`, queue: 'signalbox.dispatch', attempt: 1, createdAt: 0, finishedAt: null },
    ...{
      state: number % 2 === 0 ? 'running' : 'ready',
      payload: '{"service":"nmt"}',
      result: null,
      error: null,
    },
  }))
  const asked: (readonly string[])[] = []
  const logs = {
    async progress(ids: readonly string[]) {
      asked.push(ids)
      // The first has said how far it is, the second did so in an attempt before.
      const progress = '{"percent":30,"note":null,"data":{"nodeId":"n"}}'
      return ids.slice(0, 2).map((jobId, number) => ({ jobId, attempt: 1 - number, progress, at: 0 }))
    },
  }
  let lists = 0
  const list = async () => {
    lists++
    return records
  }
  const jobs = { list }
  const reads = new TaskReads({ ...engine, jobs, logs } as unknown as Engine)
  const { items, cursor } = await reads.page({ status: undefined, limit: 50, before: undefined })
  assert.deepEqual([lists, asked.length, asked[0]?.length, cursor], [1, 1, 25, 't50'])
  assert.deepEqual(
    items.filter(({ status }) => status === 'running').map(({ taskId, nodeId }) => [taskId, nodeId]),
    [['t99', 'n']],
  )
  assert.ok(items.every((task) => !('progress' in task)))
})
