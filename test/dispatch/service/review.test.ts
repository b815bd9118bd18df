import assert from 'node:assert/strict'
import { existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { open } from 'signalbox'
import { test, vi } from 'vitest'
import { createId } from '../../../src/core/ids.ts'
import { resolveDispatchOptions } from '../../../src/dispatch/dispatch-options.ts'
import { Engine } from '../../../src/dispatch/engine.ts'
import type { Dispatch } from '../../../src/dispatch/tasks/task.ts'
import { encodeTaskJob } from '../../../src/dispatch/tasks/task-document.ts'
import type { JobStore } from '../../../src/jobs/index.ts'
import { within } from '../../support/deadline.ts'
import { FakeNode, obliging, openStore, startDispatch, until } from './stage.ts'

/** What goes wrong between a dispatcher and the world: slow answers, clocks that are set, calls at the end. */

/** A store whose word about what was settled is kept back; what was settled is so at once. */
function withSlowAnswers(jobs: JobStore) {
  const gate = { answers: Promise.resolve(), heldCount: 0 }
  const slow = new Proxy(jobs, {
    get(target, name) {
      const call = Reflect.get(target, name) as unknown
      if (typeof call !== 'function') return call
      return async (...args: unknown[]) => {
        const { answers } = gate
        const answer = await (call as (...args: unknown[]) => unknown).apply(target, args)
        if (name === 'settle') {
          gate.heldCount++
          await answers
        }
        return answer
      }
    },
  })
  return { gate, jobs: slow }
}

test('a task that is claimed again before its settlement was answered is not lost', async () => {
  await using store = await openStore('memory')
  const { gate, jobs } = withSlowAnswers(store.backend.jobs)
  const now = performance.now.bind(performance)
  let aheadMs = 0
  using _clock = vi.spyOn(performance, 'now').mockImplementation(() => now() + aheadMs)
  await using stage = startDispatch({ ...store.backend, jobs }, { pollMs: 20 }, { jobs })
  const { dispatch } = stage
  const first = new FakeNode(dispatch, { nodeId: 'first' })
  const { taskId } = await dispatch.submit({ service: 'nmt', payload: 1 })
  await until('the first attempt', () => first.tasks.length === 1)
  first.accept(first.tasks[0]!)
  const second = new FakeNode(dispatch, { nodeId: 'second' })
  const slow = Promise.withResolvers<void>()
  gate.answers = slow.promise
  first.say({ type: 'bye' })
  await until('the second attempt', () => second.tasks.length === 1)
  assert.ok(gate.heldCount > 0)
  second.accept(second.tasks[0]!)
  slow.resolve()
  gate.answers = Promise.resolve()
  await new Promise(setImmediate)
  // Tasks that were handed back and are not seen again are looked for after a few seconds, once a second.
  aheadMs = 5_000
  await new Promise((resolve) => setTimeout(resolve, 2_200))
  assert.deepEqual(
    second.frames.map(({ type }) => type),
    ['welcome', 'task.assign'],
  )
  second.finish(second.tasks[0]!)
  await until('its end', async () => (await dispatch.task(taskId))?.status === 'completed')
  assert.equal((await dispatch.task(taskId))?.attempt, 2)
  assert.equal(dispatch.counts().held, 0)
})

test('a held task that the registry has forgotten is placed again', async () => {
  await using store = await openStore('memory')
  const { jobs, notifier } = store.backend
  const engine = new Engine({ ...store.backend, jobs, notifier }, resolveDispatchOptions({ pollMs: 20 }))
  engine.start()
  try {
    const node = new FakeNode({ connections: engine.connections } as unknown as Dispatch, {
      services: { nmt: 2 },
    })
    const taskId = createId()
    const terms = { service: 'nmt', uses: { nmt: 1 }, requires: [], prefers: [], priority: 5 }
    const rest = { tenant: '', session: null, deadlineMs: null }
    await jobs.add([encodeTaskJob(taskId, { ...terms, ...rest } as never, '1')])
    await until('its attempt', () => node.tasks.length === 1)
    engine.mailbox.post({ kind: 'forget', taskId })
    await until('it to be forgotten', () => !engine.registry.has(taskId))
    assert.equal(engine.claims.size, 1)
    await until('it to be given out again', () => node.tasks.length === 2, 30_000)
    node.finish(node.tasks[1]!)
    await until('its end', () => engine.claims.size === 0)
    assert.equal((await jobs.find(taskId))?.state, 'completed')
  } finally {
    await engine.stop(0)
  }
})

test('a clock that is set forward or back changes no deadline and hides no node', async () => {
  await using store = await openStore('memory')
  const now = Date.now
  let aheadMs = 0
  using _clock = vi.spyOn(Date, 'now').mockImplementation(() => now() + aheadMs)
  await using stage = startDispatch(store.backend)
  const { dispatch } = stage
  const failsInTime = async () => {
    const { taskId } = await dispatch.submit({ service: 'tts', payload: null, deadlineMs: 200 })
    await until('its deadline', async () => (await dispatch.task(taskId))?.finishedAt !== null)
    assert.equal((await dispatch.task(taskId))?.error?.code, 'deadline_exceeded')
  }
  const patient = await dispatch.submit({ service: 'nmt', payload: 1, deadlineMs: 600_000 })
  await until('it to wait', () => dispatch.counts().waiting === 1)
  aheadMs = 86_400_000
  await failsInTime()
  assert.equal((await dispatch.task(patient.taskId))?.status, 'waiting')
  aheadMs = -3_600_000
  await failsInTime()
  assert.equal((await dispatch.task(patient.taskId))?.status, 'waiting')
  new FakeNode(dispatch, { onTask: obliging })
  await until('its end', async () => (await dispatch.task(patient.taskId))?.status === 'completed')
  await until('the node to be shown', () => dispatch.nodes().length === 1)
})

test('administrative calls during a stop are answered, and later calls end with draining', async () => {
  await using store = await openStore('memory')
  await using stage = startDispatch(store.backend)
  const { dispatch } = stage
  const node = new FakeNode(dispatch)
  await until('the node', () => dispatch.nodes().length === 1)
  const ends: Promise<unknown>[] = []
  const call = () => {
    const calls = [
      dispatch.definePool({ name: 'late', requires: [] }),
      dispatch.cordon(node.nodeId),
      dispatch.drain(node.nodeId),
    ]
    for (const each of calls)
      ends.push(
        each.then(
          () => 'done',
          ({ code }) => code,
        ),
      )
  }
  // Nodes learn that it is over while commands are still accepted and have no turn any more.
  node.close = (code) => {
    node.closedWith = code
    call()
  }
  await dispatch.stop({ graceMs: 0 })
  assert.equal(ends.length, 3)
  call()
  const [pool, cordon, drain, ...late] = await within(10_000, 'the calls', Promise.all(ends))
  // What was written down in time is done, though this dispatcher is over.
  for (const end of [pool, cordon, drain]) assert.ok(end === 'draining' || end === 'done', `${end}`)
  assert.deepEqual(late, ['draining', 'draining', 'draining'])
})

test('invalid options of dispatch are refused before anything is opened', async () => {
  const file = join(tmpdir(), `dispatch-${createId()}.db`)
  const opening = open(`sqlite:${file}`, { migrate: true, dispatch: { heartbeatMs: -1 } })
  await assert.rejects(opening, { code: 'invalid_argument' })
  assert.equal(existsSync(file), false)
})
