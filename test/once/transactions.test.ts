import assert from 'node:assert/strict'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { test } from 'vitest'
import { open } from '../../src/index.ts'

/** A box on a file, and the user's own connection to it with a table of theirs. */
async function openShop() {
  const folder = await mkdtemp(join(tmpdir(), 'signalbox-once-'))
  const file = join(folder, 'shop.db')
  const box = await open(`sqlite:${file}`)
  const tx = new DatabaseSync(file, { timeout: 5_000 })
  tx.exec('CREATE TABLE payment (note TEXT NOT NULL)')
  return {
    once: box.once,
    tx,
    payments: () => tx.prepare('SELECT note FROM payment').all().length,
    async [Symbol.asyncDispose]() {
      tx.close()
      await box.close()
      await rm(folder, { recursive: true, force: true })
    },
  }
}

test('a run in your transaction is done when that commits, together with your rows', async () => {
  await using shop = await openShop()
  const { once, tx } = shop
  const pay = () => {
    tx.exec("INSERT INTO payment VALUES ('7')")
    return { paid: 7 }
  }
  tx.exec('BEGIN IMMEDIATE')
  assert.deepEqual(await once.run('pay 7', pay, { tx }), { ran: true, result: { paid: 7 } })
  tx.exec('ROLLBACK')
  assert.equal(shop.payments(), 0)
  tx.exec('BEGIN IMMEDIATE')
  assert.equal((await once.run('pay 7', pay, { tx })).ran, true)
  tx.exec('COMMIT')
  assert.deepEqual(await once.run('pay 7', pay), { ran: false, status: 'done', result: { paid: 7 } })
  assert.equal(shop.payments(), 1)
})

test('an error in your transaction is thrown on, and the key is free whichever way it ends', async () => {
  await using shop = await openShop()
  const { once, tx } = shop
  for (const end of ['ROLLBACK', 'COMMIT']) {
    tx.exec('BEGIN IMMEDIATE')
    const run = once.run(
      `pay ${end}`,
      () => {
        throw new Error('declined')
      },
      { tx },
    )
    await assert.rejects(run, /declined/)
    tx.exec(end)
    assert.equal((await once.claim(`pay ${end}`)).status, 'run')
  }
})

test('claims, windows and ends accept your transaction', async () => {
  await using shop = await openShop()
  const { once, tx } = shop
  const sighting = { subject: ['v'], state: 1 }
  for (const end of ['ROLLBACK', 'COMMIT'] as const) {
    tx.exec('BEGIN IMMEDIATE')
    const [claim] = await once.claimMany(['a', 'b'], { tx })
    assert.ok(claim?.status === 'run')
    await once.renew('a', claim.token, 60_000, { tx })
    await once.done('a', claim.token, 1, { tx })
    assert.deepEqual(await once.seen(sighting, { tx }), { seen: false })
    tx.exec(end)
  }
  assert.deepEqual(await once.claim('a'), { status: 'done', result: 1 })
  assert.equal((await once.claim('b')).status, 'running')
  assert.deepEqual(await once.seen(sighting), { seen: true })
})
