/**
 * Two releases on one store. The schema of the newer release says which releases may still use it: the previous release
 * starts and works, and a release that may no longer work finishes its jobs and begins none.
 */
import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { ClaimRequest } from '../../src/jobs/index.ts'
import type { Backend } from '../../src/storage/backend.ts'
import { openBackend } from '../../src/storage/open.ts'
import { ownSqlite } from '../conformance/candidates.ts'
import { aJob, runningJob, until, verdictOf } from '../conformance/jobs/making.ts'
import { openNextMigrator } from '../support/next-release.ts'
import { hasService, ownMariadb, ownPostgres } from '../support/services/own.ts'

for (const { name, own } of [
  { name: 'sqlite', own: ownSqlite },
  { name: 'postgres', own: ownPostgres },
  { name: 'mariadb', own: ownMariadb },
] as const) {
  test.runIf(name === 'sqlite' || hasService(name))(
    `on ${name} the previous release works on a compatible schema, and drains on an incompatible one`,
    async () => {
      await using place = await own()
      const opened = () => openBackend(place.url, { namespace: 'default', migrate: true, schemaLookMs: 20 })
      await using before = await opened()
      const { latest, isRunnable } = await before.migrator.status()
      assert.equal(isRunnable, true)
      const held = await runningJob(before)

      // The next release migrates, and allows this one.
      await using next = openNextMigrator(place.url)
      await next.up()
      const status = await before.migrator.status()
      assert.deepEqual([status.current, status.isRunnable], [latest + 1, true])
      await using beside = await opened()
      await beside.jobs.settle([verdictOf(await runningJob(beside))])
      await runningJob(before)

      // The one after that does not.
      await using afterNext = openNextMigrator(place.url, 'allowing, then refusing')
      await afterNext.up()
      await until('it is refused', () => isRefused(before))
      await assert.rejects(opened(), { code: 'schema_newer' })
      assert.deepEqual(await before.jobs.settle([verdictOf(held)]), [true])
      assert.equal((await before.migrator.status()).isRunnable, false)
      // It may still add jobs that it may not claim, also when its own worker is idle.
      const added = await before.jobs.addClaimed?.(aJob({ queue: 'idle' }), { ...nothing, queues: ['idle'] })
      assert.equal(added, undefined)
      await before.jobs.add([aJob()])
    },
  )
}

const nothing: ClaimRequest = { queues: ['unknown'], kinds: null, workerId: 'w', limit: 1, leaseMs: 1_000 }

async function isRefused({ jobs }: Backend): Promise<boolean> {
  try {
    await jobs.claim(nothing)
    return false
  } catch (error) {
    assert.equal((error as { code?: string }).code, 'schema_newer')
    return true
  }
}
