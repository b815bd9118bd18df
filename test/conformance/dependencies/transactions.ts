import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { Candidate, SqlSide } from '../candidates.ts'
import { openLedger } from '../jobs/ledger.ts'
import { aJob, claim, find } from '../jobs/making.ts'
import { aLock, dependenciesOf, lockOf } from './making.ts'

/** A caller's transaction adds jobs together with their dependencies. */
export function dependenciesInTransactions({ open, sql: side }: Candidate): void {
  const sql: SqlSide = side!

  test('a business row, a job and its dependencies are committed together or not at all', async () => {
    await using backend = await open()
    await using ledger = await openLedger(sql)
    await using caller = await sql.connect()
    for (const end of ['rollback', 'commit'] as const) {
      const first = aJob()
      const second = aJob({ dependsOn: dependenciesOf({ jobs: [first.id] }) })
      const third = aJob({ dependsOn: dependenciesOf({ lock: aLock }) })
      await caller.begin()
      await caller.exec(`INSERT INTO ${ledger.table} (note) VALUES (?)`, 'order 1')
      await backend.jobs.add([first], caller.tx)
      await backend.jobs.add([second, third], caller.tx)
      await caller[end]()
      const isKept = end === 'commit'
      assert.deepEqual(await ledger.logs(), isKept ? ['order 1'] : [])
      assert.deepEqual(
        await backend.dependencies.states([first.id, second.id, third.id]),
        isKept ? ['ready', 'waiting', 'waiting'] : [undefined, undefined, undefined],
      )
      assert.equal((await backend.dependencies.unmet({ limit: 10 })).length, isKept ? 1 : 0)
      assert.equal((await lockOf(backend, third.id))?.askNo, isKept ? 1 : undefined)
      if (isKept) assert.equal((await claim(backend)).length, 1)
    }
  })

  test('in a transaction a duplicate stores no dependencies; its dependents depend on the existing job', async () => {
    await using backend = await open()
    await using caller = await sql.connect()
    const held = aJob({ uniqueKey: 'k', queue: 'other' })
    await backend.jobs.add([held])
    const again = aJob({
      uniqueKey: 'k',
      queue: 'other',
      dependsOn: dependenciesOf({ jobs: ['x'], lock: aLock }),
    })
    const needing = aJob({ dependsOn: dependenciesOf({ jobs: [again.id] }) })
    await caller.begin()
    await backend.jobs.add([again, needing], caller.tx)
    await caller.commit()
    assert.deepEqual(await backend.dependencies.unmet({ limit: 10 }), [
      { jobId: needing.id, dependencyId: held.id },
    ])
    assert.deepEqual(await backend.dependencies.fences([again.id]), [undefined])
    assert.equal((await find(backend, held.id)).state, 'ready')
  })
}
