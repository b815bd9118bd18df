import assert from 'node:assert/strict'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Pool } from 'pg'
import { type Box, open } from 'signalbox'
import { addresses } from '../addresses.ts'
import { around, check, replace } from '../prelude.ts'

export { open } from 'signalbox'

/** On Postgres where the page says so; else on its file. */
export let box: Box
around(async ({ key }) => {
  box = await open(key === 'Your own transaction' ? addresses.postgres! : 'sqlite:signalbox.db')
  return () => box.close()
})

const posted: string[] = []
const mail = createServer((request, response) => {
  posted.push(`${request.method} ${request.url}`)
  response.end()
}).listen(0, '127.0.0.1')
await new Promise((resolve) => mail.once('listening', resolve))
replace('https://mail.example.com', `http://127.0.0.1:${(mail.address() as AddressInfo).port}`)

check('Run work once', async ({ values: { answer } }) => {
  assert.deepEqual(answer, { ran: true, result: { sent: true } })
  assert.deepEqual(posted, ['POST /welcome/ada'])
  const again = await box.once.run('welcome-mail:ada', () => assert.fail('it was done before'))
  assert.deepEqual(again, { ran: false, status: 'done', result: { sent: true } })
})

export const crawl = async (signal: AbortSignal): Promise<boolean> => !signal.aborted
check('In a shell, and in cron', ({ output }) => assert.match(output, /^the report of the day$/m))

check('Which call do I need?', ({ values: { task, seen, key } }) => {
  assert.deepEqual([task.ran, task.result, seen], [true, true, false])
  assert.equal(typeof key, 'string')
})
check('Claim by hand', ({ values: { claim, answers } }) => {
  assert.equal(claim.status, 'run')
  assert.deepEqual(
    answers.map(({ status }: { status: string }) => status),
    ['run', 'run'],
  )
})
check('Claim by hand #2', async ({ values: { items } }) => {
  assert.ok(items.length >= 3)
  assert.equal((await box.once.list({ search: 'order:17' })).items.length, 0)
})

export const account = 'DE89'
check('Fingerprints', async () => {
  const other = box.once.claim('payment:0b1f', { fingerprint: '18 EUR to DE89' })
  await assert.rejects(other, { code: 'fingerprint_mismatch' })
})

const pool = new Pool({ connectionString: addresses.postgres })
await pool.query('CREATE TABLE account (id int, balance int)')
await pool.query('INSERT INTO account VALUES (1, 100)')
check('Your own transaction', async () => {
  assert.deepEqual((await pool.query('SELECT balance FROM account')).rows, [{ balance: 83 }])
  assert.equal((await box.once.claim('order:17')).status, 'done')
})

check('Counters', async ({ data }) => {
  await using fresh = await open('memory:')
  for (const key of ['a', 'b', 'c', 'a']) await fresh.once.claim(key)
  for (let calls = 0; calls < 5; calls++) await fresh.once.seen({ subject: ['court-1'], state: 'free' })
  assert.deepEqual(fresh.once.stats().answers, data)
})
