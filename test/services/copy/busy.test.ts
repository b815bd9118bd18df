import assert from 'node:assert/strict'
import { test } from 'vitest'
import { copy, planCopy } from '../../../src/copy/index.ts'
import { isSignalboxError } from '../../../src/core/errors.ts'
import { open } from '../../../src/index.ts'
import { engines, ownDatabase, ownSqlite } from './stage.ts'

for (const engine of engines) {
  test(`a copy detects active work in ${engine} and does not start`, async () => {
    await using from = await ownDatabase(engine)
    await using to = await ownSqlite()
    await using box = await open(from.url, { migrate: true, contention: false })
    const { backend } = box
    await box.jobs.add('mail')
    const [job] = await box.jobs.claim({ leaseMs: 60_000, workerId: 'ada' })
    const guard = { space: 'reports', key: 'monday', keepMs: 1_000, fingerprint: null, leaseMs: 60_000 }
    await backend.guards.claim([{ ...guard, mode: 'at-least-once' }])
    await backend.monitor.take({ channel: 'desk', token: 'sender', leaseMs: 60_000 })
    await backend.cluster.write([{ kind: 'server', key: 'server-1', seen: 0, doc: '{}', forMs: 60_000 }])
    await box.locks.acquire({
      operation: 'pull',
      resource: 'nginx',
      node: 'n1',
      requestId: 'r1',
      ttlMs: 60_000,
    })

    const { held } = await planCopy(from.url, to.url)
    assert.deepEqual(held.map(({ of, holder }) => `${of}: ${holder}`).sort(), [
      'channel desk: a sender',
      'guard reports/monday: its claimer',
      `job default/${job!.id}: ada`,
      'lock pull nginx: n1',
      'server server-1: itself',
    ])
    for (const { of, restMs } of held) assert.ok(restMs > 0 && restMs <= 60_000, `${of}: ${restMs}`)
    await assert.rejects(copy(from.url, to.url, { waitMs: 100 }), (error) =>
      isSignalboxError(error, 'copy_source_busy'),
    )
  })
}
