import assert from 'node:assert/strict'
import { test } from 'vitest'
import { curlOf } from './curl.ts'

const url = 'https://example.com/v1/jobs'
const home = { everyNamespace: true, namespace: 'default' }

test('where nothing else is needed it is an address and a body', () => {
  assert.equal(
    curlOf(url, { kind: 'hello' }, { me: home, hasToken: false }),
    `curl -X POST ${url} -H 'content-type: application/json' -d '{"kind":"hello"}'`,
  )
})

test('it brings a token where one is needed, and goes where the reader is, whatever that is called', () => {
  const me = { everyNamespace: true, namespace: "it's; über" }
  const command = curlOf(url, {}, { me, hasToken: true })
  assert.ok(command.includes(`-H "authorization: Bearer $SIGNALBOX_TOKEN" `), command)
  assert.ok(command.includes(`-H 'signalbox-namespace: it'\\''s%3B%20%C3%BCber' `), command)
})
