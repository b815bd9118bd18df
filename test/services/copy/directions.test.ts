import assert from 'node:assert/strict'
import { test } from 'vitest'
import { compare, copy } from '../../../src/copy/index.ts'
import { open } from '../../../src/index.ts'
import { type CopyNumbers, copyTables, openCopyEnd } from '../../../src/storage/index.ts'
import { fillRich, namespaces, readAll } from './rich.ts'
import { engines, ownDatabase } from './stage.ts'

/** Each engine's store is filled once, and copied to the two others. */
for (const engine of engines) {
  test(`the data of ${engine} is the same in every other engine after a copy`, {
    timeout: 60_000,
  }, async () => {
    await using from = await ownDatabase(engine)
    await fillRich(from.url)
    for (const other of engines.filter((name) => name !== engine)) {
      await using to = await ownDatabase(other)
      const report = await copy(from.url, to.url)
      const filled = report.tables.filter(({ rows }) => rows > 0).map(({ table }) => table)
      assert.deepEqual(
        copyTables.map(({ name }) => name).filter((name) => !filled.includes(name)),
        [],
        'a table that is empty is not tested',
      )
      assert.equal((await compare(from.url, to.url)).sha256, report.sha256)
      for (const namespace of namespaces)
        assert.deepEqual(await readAll(to.url, namespace), await readAll(from.url, namespace))
      await goesOn(to.url, await numbersOf(from.url))
    }
  })
}

/** The copy is a usable store: all ready jobs run, with numbers above all earlier ones. */
async function goesOn(url: string, before: CopyNumbers): Promise<void> {
  for (const namespace of namespaces) {
    await using box = await open(url, { namespace, contention: false })
    await assert.rejects(box.jobs.add('mail', 0, { uniqueKey: '' }))
    assert.equal((await box.jobs.add('mail', 0, { uniqueKey: 'Key' })).duplicate, true)
    const queues = ['default', 'ends', 'tight']
    const claimed = await box.jobs.claim({ queues, limit: 100, leaseMs: 60_000 })
    assert.ok(claimed.length >= 4, `${claimed.length} were ready`)
    for (const job of claimed) {
      assert.ok(Number(job.token.split('.')[0]) > before.leaseNo, `${job.token} after ${before.leaseNo}`)
      await box.jobs.ack(job)
    }
    const who = { node: 'n9', requestId: 'r9' }
    const lock = await box.locks.acquire({ operation: 'push', resource: 'something else', ...who })
    assert.ok(lock.status === 'granted' && lock.token > before.lockToken)
  }
}

async function numbersOf(url: string): Promise<CopyNumbers> {
  await using end = await openCopyEnd(url)
  await using look = await end.look()
  return await look.numbers()
}
