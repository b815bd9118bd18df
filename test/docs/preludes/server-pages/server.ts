import assert from 'node:assert/strict'
import { check } from '../../prelude.ts'

check('Start', ({ output }) => assert.equal(output.match(/"event":"listening"/g)?.length, 2))

export const request: Request = new Request('http://app.example/signalbox/livez')
check('In your own app', ({ values: { reply } }) => assert.equal(reply.status, 200))
