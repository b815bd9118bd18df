import assert from 'node:assert/strict'
import { open, type RemoteBox } from 'signalbox'
import { addresses } from '../../addresses.ts'
import { around, check, replace } from '../../prelude.ts'

export let box: RemoteBox
around(async () => {
  box = await open(addresses.server as 'http://…')
  return () => box.close()
})

for (const name of ['one', 'two'])
  replace(`wss://${name}.example:7420`, addresses.server!.replace('http', 'ws'))
export const translate = (payload: unknown): unknown => payload

check('A remote box', ({ output }) => assert.equal(output, 'Hello, Ada!\n'))
check('The client', async ({ values: { job } }) => {
  assert.equal(job.kind, 'mail')
  assert.equal((await box.jobs.find(job.id))?.result, 'sent')
})
check('The client #2', ({ output }) => assert.equal(output, 'ready 0 null\n'))
check('Streams', ({ output }) => assert.match(output, /^connected\nqueues /))
