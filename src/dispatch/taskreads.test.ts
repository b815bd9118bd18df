import assert from 'node:assert/strict'
import { test } from 'vitest'
import { within } from '../../test/support/deadline.ts'
import type { JobStore, NoteStore } from '../jobs/index.ts'
import type { Engine } from './engine.ts'
import { TaskReads } from './taskreads.ts'
import { TaskFeed } from './tasksfeed.ts'

test('a task that comes into our hands while the store is asked for it elsewhere is not missed', async () => {
  const feed = new TaskFeed()
  const claims = new Map<string, object>()
  const views = new Map<string, object>()
  const engine = { feed, claims, registry: { task: (id: string) => views.get(id) }, now: () => 0 }
  const record = {
    ...{ id: 't', queue: 'signalbox.dispatch', state: 'running', attempt: 1, createdAt: 0, finishedAt: null },
    ...{ payload: '{"service":"nmt"}', result: null, error: null },
  }
  let reads = 0
  const notes = {
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
  const jobs = { find: async () => record } as unknown as JobStore
  const reader = new TaskReads(engine as unknown as Engine, jobs, notes as unknown as NoteStore)
  const leaving = new AbortController()
  const events = reader.watch('t', leaving.signal)
  assert.equal((await events.next()).value?.status, 'waiting')
  const { value } = await within(3_000, 'the news', events.next())
  assert.deepEqual([value?.status, value?.nodeId], ['running', 'n'])
  leaving.abort()
  assert.equal((await events.next()).done, true)
})
