import assert from 'node:assert/strict'
import { test } from 'vitest'
import { openMemory } from '../../storage/memory/index.ts'
import type { Incoming } from './call.ts'
import { resolveHandlerOptions } from './server-options.ts'
import { createService } from './service.ts'

function get(path: string): Incoming {
  return {
    method: 'GET',
    path,
    query: '',
    address: '',
    header: () => undefined,
    signal: new AbortController().signal,
    isGone: false,
    readBody: async () => new Uint8Array(0),
  }
}

test('a stream whose reader was too slow is counted as dropped, one that ended is not', async () => {
  await using backend = await openMemory({ namespace: 'default', migrate: true })
  const { service } = resolveHandlerOptions({ box: { backend } })
  await using whole = createService({ ...service, loopback: true, trust: false, hosts: () => undefined })
  const open = async () => {
    const outgoing = await whole.api.answer(get('/v1/events'), 'id')
    assert.ok('feed' in outgoing)
    return outgoing
  }
  const [slow, gone] = [await open(), await open()]
  slow.ended('dropped')
  gone.ended('ended')
  const scrape = await whole.api.answer(get('/metrics'), 'id')
  assert.ok('body' in scrape)
  assert.match(String(scrape.body), /^signalbox_streams_dropped_total 1$/m)
  assert.match(String(scrape.body), /^signalbox_streams_open 0$/m)
})
