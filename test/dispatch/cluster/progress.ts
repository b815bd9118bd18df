/** The progress of tasks, as servers see it that do not hold their node, on any engine. */
import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { TaskEvent } from '../../../src/dispatch/tasks/task.ts'
import { until } from '../service/stage.ts'
import { connect, type Shared, startServers } from './stage.ts'

export function testProgress(engine: string, open: () => Promise<Shared & AsyncDisposable>): void {
  test(`${engine}: every server sees a task's progress within about a second, and never that of an earlier attempt`, async () => {
    await using store = await open()
    await using servers = await startServers(store, 3, { policy: { retryInMs: 1 } })
    const node = await connect(servers.first)
    const { taskId } = await servers.last.submit({ service: 'nmt' })
    await until('it runs', () => node.tasks.length === 1)
    const [task] = node.tasks
    const { attempt } = task!
    const seen: TaskEvent[] = []
    const watching = (async () => {
      for await (const event of servers.last.watch(taskId)) seen.push(event)
    })()
    node.accept(task!)
    // Where tests must be quick, its node sends progress at once.
    for (const { dispatch } of engine === 'memory' ? servers.all : []) {
      await until('it is seen to run', async () => (await dispatch.task(taskId))?.status === 'running')
      assert.equal((await dispatch.task(taskId))?.progress, null)
    }
    const began = performance.now()
    node.say({ type: 'task.progress', taskId, attempt, percent: 30, note: 'reading' })
    for (const { dispatch } of servers.all) {
      await until('it is seen', async () => (await dispatch.task(taskId))?.progress?.percent === 30)
      const { status, nodeId, progress } = (await dispatch.task(taskId))!
      assert.deepEqual([status, nodeId, progress?.note], ['running', 'n1', 'reading'])
      assert.match((await dispatch.explain(taskId)).wakes.join(), /Node "n1" has it, and is at 30 %/)
      const listed = async (status?: 'running' | 'waiting') =>
        (await dispatch.tasks(status && { status })).items.map((task) => [task.status, task.nodeId])
      assert.deepEqual(await listed(), [['running', 'n1']])
      assert.deepEqual(await listed('waiting'), [])
      // A server that has just begun takes itself for the only one.
      await until('it is listed as running', async () => (await listed('running')).length === 1)
    }
    await until('it is told', () => reportedPercent(seen.at(-1)) === 30)
    assert.ok(performance.now() - began < 4_000, 'far sooner than by any lease')
    // The pace of later progress is tested in task-progress.test.ts.
    const follows = engine === 'memory' ? [60] : []
    for (const percent of follows) {
      node.say({ type: 'task.progress', taskId, attempt, percent, note: null })
      await until('it is told anew', () => reportedPercent(seen.at(-1)) === percent)
    }
    // The next attempt has said nothing yet.
    node.fail(task!)
    await until('it is tried again', () => node.tasks.length === 2)
    for (const { dispatch } of servers.all) assert.equal((await dispatch.task(taskId))?.progress, null)
    node.finish(node.tasks[1]!)
    await watching
    const reported = seen.filter((event) => event.attempt === attempt && event.status !== 'waiting')
    assert.deepEqual(
      reported.map((event) => reportedPercent(event) ?? event.status),
      ['running', 30, ...follows],
    )
    assert.equal(seen.at(-1)?.status, 'completed')
    const over = (await servers.last.task(taskId))!
    assert.deepEqual([over.progress, over.status], [null, 'completed'])
  })
}

function reportedPercent(event: TaskEvent | undefined): number | null {
  return event?.status === 'progress' ? event.percent : null
}
