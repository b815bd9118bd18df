import assert from 'node:assert/strict'
import { test } from 'vitest'
import { curlOf } from './curl.ts'

const url = 'https://example.com/v1/jobs'
const home = { everyNamespace: true, namespace: 'default' }

test('the curl command has only an address and a body where nothing else is needed', () => {
  assert.equal(
    curlOf(url, { kind: 'hello' }, { me: home, hasToken: false }),
    `curl -X POST ${url} -H 'content-type: application/json' -d '{"kind":"hello"}'`,
  )
})

test("the curl command has a token where one is needed, and the page's own address", () => {
  const me = { everyNamespace: true, namespace: "it's; über" }
  const command = curlOf(url, {}, { me, hasToken: true })
  assert.ok(command.includes(`-H "authorization: Bearer $SIGNALBOX_TOKEN" `), command)
  assert.ok(command.includes(`-H 'signalbox-namespace: it'\\''s%3B%20%C3%BCber' `), command)
})
