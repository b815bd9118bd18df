import assert from 'node:assert/strict'
import { open } from 'signalbox'
import { createServer, type Server } from 'signalbox/server'
import { addresses } from '../../addresses.ts'
import { check } from '../../prelude.ts'

/** On a port that is taken, by the page's own server. */
export const server: Server = createServer({
  box: await open('memory:'),
  host: '127.0.0.1',
  port: Number(new URL(addresses.server!).port),
})

check('Errors', ({ output }) => assert.match(output, /in use|taken/))

check('Over HTTP', async ({ data }) => {
  const reply = await fetch(`${addresses.server}/nope`)
  assert.deepEqual(await reply.json(), data)
})
