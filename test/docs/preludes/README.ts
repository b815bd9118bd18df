import assert from 'node:assert/strict'
import { DatabaseSync } from 'node:sqlite'
import { box } from '../box.ts'
import { complete } from '../handler-job.ts'
import { around, check } from '../prelude.ts'

export * from '../box.ts'

check('Jobs', ({ output }) => assert.equal(output, 'Hello, Ada!\n'))

const database = new DatabaseSync('signalbox.db')
database.exec('CREATE TABLE payment (order_id INTEGER, amount INTEGER)')
check('Jobs #2', async ({ values: { worker } }) => {
  const { id } = await box.jobs.add('charge', { orderId: 7, amount: 1200 })
  await complete(worker, 1)
  assert.deepEqual((await box.jobs.find(id))?.result, { ok: true })
  const payments = database.prepare('SELECT order_id, amount FROM payment').all()
  assert.deepEqual(payments.map(Object.values), [[7, 1200]])
})

export const node = 'node-1'
let image: string | undefined
let fence = 0
export const findInCache = (): string | undefined => image
export async function pull(signal: AbortSignal): Promise<string> {
  signal.throwIfAborted()
  image = 'app:1.2'
  return image
}
export async function deploy(turn: { readonly fence: number; readonly signal: AbortSignal }): Promise<void> {
  turn.signal.throwIfAborted()
  fence = turn.fence
}
check('Locks', ({ values: { image, held } }) => {
  assert.equal(image, 'app:1.2')
  assert.ok(fence > 0)
  assert.equal(held.token, fence)
})

export const taskId = 'crawl-1'
// Nothing is sent there: the first state of a court is no news.
export const url = 'https://oapi.dingtalk.com/robot/send?access_token=none'
export const secret = 'SEC-unused'
const invoices: number[] = []
export async function sendInvoice(number: number): Promise<void> {
  invoices.push(number)
}
check('Once and monitor', async () => {
  assert.equal((await box.once.run('invoice:17', () => sendInvoice(17))).ran, false)
  assert.deepEqual(invoices, [17])
  const why = await box.monitor.explain({ source: 'booking', subject: 'court-1' })
  assert.deepEqual([why.present?.state, why.decisions[0]?.reason], ['free', 'new'])
})

export async function translate(payload: unknown, signal: AbortSignal): Promise<unknown> {
  signal.throwIfAborted()
  return { said: payload }
}
check('Dispatch', async ({ output, values: { client, taskId } }) => {
  assert.match(output, /type: 'completed'/)
  const task = await client.dispatch.task(taskId)
  assert.deepEqual(
    [task.status, task.nodeId, task.output],
    ['completed', 'gpu-7', { said: { text: '早上好' } }],
  )
})

let stop = new AbortController()
export let signal: AbortSignal
const reconciled: string[] = []
/** Works on all that is due, and then has it end. */
export async function reconcile(item: string): Promise<void> {
  reconciled.push(item)
  if (reconciled.length === 2) stop.abort()
}
around(() => {
  stop = new AbortController()
  signal = stop.signal
})
check('Work queue', ({ values: { queue } }) => {
  assert.deepEqual(reconciled, ['shop/cart', 'shop/web'])
  assert.equal(queue.waiting, 1)
  queue.shutDown()
})
