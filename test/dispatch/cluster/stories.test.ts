import assert from 'node:assert/strict'
import { test } from 'vitest'
import { engines, obliging, openStore, until } from '../service/stage.ts'
import { testProgress } from './progress.ts'
import { connect, ended, startServers } from './stage.ts'
import { testStories } from './stories.ts'

for (const engine of engines) {
  testStories(engine, () => openStore(engine))
  testProgress(engine, () => openStore(engine))
}

test('a server shares its long wait queue with the nodes of another', async () => {
  await using store = await openStore('memory')
  await using servers = await startServers(store, 3)
  const slow = await connect(servers.first, { nodeId: 'slow', services: { nmt: 2 } })
  const tasks = await Promise.all(Array.from({ length: 22 }, () => servers.last.submit({ service: 'nmt' })))
  await until('it is full', () => slow.tasks.length === 2)
  const helper = await connect(servers.last, { nodeId: 'helper', services: { nmt: 2 }, onTask: obliging })
  await until('the wait queue is worked off', () => helper.tasks.length === 20)
  for (const task of slow.tasks) slow.finish(task)
  for (const { taskId } of tasks) await ended(servers.last, taskId)
  assert.equal(new Set([...slow.tasks, ...helper.tasks].map(({ taskId }) => taskId)).size, 22)
})
