import assert from 'node:assert/strict'
import { join } from 'node:path'
import { type Box, open, type RemoteBox } from 'signalbox'
import { createContention } from 'signalbox/contention'
import { test } from 'vitest'
import { type Stage, serving } from '../http/server/stage.ts'

/** A server whose recorder is its own, so that no other test is seen in it. */
function measured(
  url: (folder: string) => string = (folder) => `sqlite:${join(folder, 'box.db')}`,
  thread = true,
): Promise<Stage> {
  return serving({}, url, { thread, contention: createContention() })
}

test('GET /v1/contention shows what requests waited for, and who used the writer', async () => {
  for (const thread of [true, false]) {
    await using stage = await measured(undefined, thread)
    const body = { kind: 'mail', payload: {} }
    await Promise.all(Array.from({ length: 30 }, () => stage.ask('POST', '/v1/jobs', { body })))

    const { status, body: snapshot } = await stage.ask('GET', '/v1/contention')
    assert.equal(status, 200)
    const kindOf = (name: string) => snapshot.kinds.find(({ kind }: { kind: string }) => kind === name)
    assert.equal(kindOf('http.addJobs').hold.count, 30)
    assert.ok(kindOf('http.addJobs').wait.sumMs > 0)
    assert.ok(kindOf('store.jobs.add').hold.count >= 1)
    assert.equal(kindOf('sqlite.add').lane, 'sqlite')
    assert.ok(kindOf('sqlite.commit').hold.count >= 1)
    assert.ok(kindOf('sqlite.add').wait.sumMs >= 0)
    const lane = snapshot.lanes.find(({ lane }: { lane: string }) => lane === 'sqlite')
    assert.equal(lane.size, 1)
  }
})

test('the wait of a write is charged to the current writer', async () => {
  await using stage = await measured(undefined, false)
  const { box } = stage
  const { promise: isHeld, resolve: hold } = Promise.withResolvers<void>()
  const { promise: isOver, resolve: end } = Promise.withResolvers<void>()
  await using worker = box.jobs.worker({
    handlers: {
      slow: (job) =>
        job.transaction(async () => {
          hold()
          await isOver
        }),
    },
  })
  await worker.start()
  await box.jobs.add('slow', {})
  await isHeld
  const command = box.contention.kind('command')
  const adding = box.contention.during(command, () => box.jobs.add('mail', {}))
  await new Promise((resolve) => setTimeout(resolve, 50))
  end()
  await adding

  const { matrix } = box.contention.snapshot()
  const cell = matrix.find(({ waiter, holder }) => waiter === 'sqlite.add' && holder === 'sqlite.transaction')
  assert.ok(cell !== undefined && cell.ms > 20, JSON.stringify(matrix))
  const request = matrix.find(({ waiter, holder }) => waiter === 'command' && holder === 'store')
  assert.ok(request !== undefined && request.ms > 20, JSON.stringify(matrix))
})

test('metrics show waits, holds and who waited for whom', async () => {
  await using stage = await measured()
  await stage.ask('POST', '/v1/jobs', { body: { kind: 'mail', payload: {} } })
  // A wait of a second that no host can hide.
  const { contention } = stage.box
  const dispatch = contention.kind('dispatch', { lane: 'registry' })
  const rebuild = contention.kind('rebuild', { lane: 'registry' })
  contention.turn(rebuild, 0, 0, 1_000)
  contention.turn(dispatch, 0, 1_000, 1_001)

  const { body: text } = await stage.ask('GET', '/metrics')
  const lines = (text as string).split('\n')
  assert.ok(lines.includes('signalbox_wait_seconds_bucket{kind="dispatch",le="0.5"} 0'))
  assert.ok(lines.includes('signalbox_wait_seconds_bucket{kind="dispatch",le="+Inf"} 1'))
  assert.ok(lines.includes('signalbox_wait_seconds_sum{kind="dispatch"} 1'))
  assert.ok(lines.includes('signalbox_hold_seconds_count{kind="http.addJobs"} 1'))
  assert.ok(lines.includes('signalbox_waited_on_seconds_total{waiter="dispatch",holder="rebuild"} 1'))
})

async function waitForLock(box: Box | RemoteBox): Promise<void> {
  await using first = await box.locks.hold('deploy', 'web', { node: 'first' })
  const second = box.locks.hold('deploy', 'web', { node: 'second' })
  for (;;) {
    const { waiters } = await box.locks.inspect({ operation: 'deploy', resource: 'web' })
    if (waiters.length > 0) break
    await new Promise((resolve) => setTimeout(resolve, 1))
  }
  await new Promise((resolve) => setTimeout(resolve, 30))
  await first.release()
  await using held = await second
  assert.equal(held.node, 'second')
}

test('waits for locks are recorded by key with their holder, in process and through a server', async () => {
  await using stage = await measured()
  await using remote = await open(stage.url as `http://${string}`)
  for (const box of [stage.box, remote]) {
    await waitForLock(box)
    const { keys } = await box.contention.snapshot()
    const key = keys.find(({ resource }) => resource === 'web')!
    assert.deepEqual([key.namespace, key.operation, key.waiters], ['default', 'deploy', []])
    assert.ok(key.maxWaitMs >= 25, `${key.maxWaitMs}`)
    assert.deepEqual(key.heldBy[0]!.node, 'first')
  }
  const { keys } = await remote.contention.snapshot()
  assert.equal(keys[0]!.waitCount, 2)
})

test('a token of one namespace sees neither the keys of another nor the details of turns', async () => {
  await using stage = await measured()
  const { contention } = stage.box
  contention.keys.queued({ namespace: 'theirs', operation: 'deploy', resource: 'secret' }, 'node', '1')
  contention.turn(contention.kind('dispatch', { lane: 'registry' }), 0, 9_999, 10_000, 'secret task')
  const { body: made } = await stage.ask('POST', '/v1/tokens', {
    body: { name: 'reader', scope: 'read', namespace: 'mine' },
  })
  const headers = { authorization: `Bearer ${made.secret ?? made.token}` }
  const { status, body } = await stage.ask('GET', '/v1/contention', { headers })

  assert.equal(status, 200)
  assert.doesNotMatch(JSON.stringify(body), /secret/)
  assert.ok(body.slowest.some(({ kind }: { kind: string }) => kind === 'dispatch'))
})

test('jobs that were claimed ahead wait for a free slot in the worker', async () => {
  const contention = createContention()
  await using box = await open('memory:', { contention })
  const { promise: done, resolve } = Promise.withResolvers<void>()
  let ran = 0
  await using worker = box.jobs.worker({
    concurrency: 1,
    handlers: {
      mail: async () => {
        await new Promise((next) => setTimeout(next, 10))
        if (++ran === 5) resolve()
      },
    },
  })
  await box.jobs.addMany(Array.from({ length: 5 }, () => ({ kind: 'mail', payload: {} })))
  await worker.start()
  await done
  await worker.stop()

  const { kinds, lanes } = contention.snapshot()
  const job = kinds.find(({ kind }) => kind === 'worker.job')!
  assert.equal(job.hold.count, 5)
  assert.ok(kinds.some(({ kind }) => kind === 'worker.claim'))
  assert.ok(kinds.some(({ kind }) => kind === 'worker.settle'))
  const lane = lanes.find(({ lane }) => lane === 'worker')!
  assert.deepEqual([lane.size, lane.waiting, lane.holding], [1, 0, 0])
})

test('a box with measuring switched off measures nothing', async () => {
  await using box = await open('memory:', { contention: false })
  await box.jobs.add('mail', {})

  assert.equal(box.contention.enabled, false)
  assert.deepEqual(box.contention.snapshot().kinds, [])
})
