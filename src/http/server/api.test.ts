import assert from 'node:assert/strict'
import { test } from 'vitest'
import { SignalboxError } from '../../core/errors.ts'
import { type Route, routes } from '../contract/index.ts'
import { type ApiParts, createApi } from './api.ts'
import type { Incoming, OutgoingText } from './call.ts'
import { rootRoute } from './handlers/system.ts'

/** An API that rejects every caller at authentication, so a test sees which requests get that far. */
function apiThat(parts: Partial<ApiParts>) {
  const handlers = Object.fromEntries([...routes, rootRoute].map(({ id }) => [id, () => ({ body: {} })]))
  return createApi({
    handlers,
    authenticator: {
      authenticate: () => Promise.reject(new SignalboxError('unauthorized', 'Every caller is refused.')),
    },
    assets: { find: () => undefined },
    hosts: () => undefined,
    isDraining: () => false,
    isOverloaded: () => false,
    maxBodyBytes: 1_048_576,
    onBegan() {},
    onProblem() {},
    onAnswered() {},
    ...parts,
  } as unknown as ApiParts)
}

function incomingOf({ method, path }: Route): Incoming {
  const headers: Record<string, string> = { host: 'box', 'content-type': 'application/json' }
  return {
    method,
    path: path.replaceAll(/\{\w+\}/g, 'x'),
    query: '',
    address: '',
    signal: new AbortController().signal,
    header: (name) => headers[name],
    isGone: false,
    readBody: async () => new Uint8Array(0),
  }
}

test('an overloaded server accepts calls that end or keep work, reports its load, and refuses all else', async () => {
  const api = apiThat({ isOverloaded: () => true })
  const passed: string[] = []
  for (const route of routes) {
    const { status, headers, body } = (await api.answer(incomingOf(route), 'r1')) as OutgoingText
    if (status !== 503) {
      passed.push(route.id)
      continue
    }
    assert.equal(JSON.parse(String(body)).code, 'overloaded', route.id)
    assert.equal(headers['retry-after'], '1')
  }
  assert.deepEqual(passed.sort(), [
    ...['ackJob', 'checkHeld', 'doneOnce', 'failOnce', 'leaveLock', 'livez', 'metrics', 'nackJob'],
    ...['readyz', 'releaseLock', 'renewJob', 'renewLock', 'renewOnce', 'reportWorkers'],
  ])
})

test('a server that keeps up refuses no request as overloaded', async () => {
  const api = apiThat({})
  for (const route of routes) {
    const { status } = await api.answer(incomingOf(route), 'r1')
    assert.notEqual(status, 503, route.id)
  }
})
