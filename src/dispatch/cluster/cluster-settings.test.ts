import assert from 'node:assert/strict'
import { test } from 'vitest'
import { isSignalboxError, SignalboxError } from '../../core/errors.ts'
import { ClusterSettings } from './cluster-settings.ts'
import type { Sharing } from './server-sharing.ts'

test('of many writes that the cluster state does not accept, those that waited too long are dropped', async () => {
  let nowMs = 0
  const gate = Promise.withResolvers<never>()
  const tried: string[] = []
  const cluster = {
    onChange: () => undefined,
    change: (_kind: string, key: string) => {
      tried.push(key)
      return gate.promise
    },
  }
  const settings = new ClusterSettings({
    cluster,
    monotonicMs: () => nowMs,
  } as unknown as Sharing)
  const words = ['p1', 'p2', 'p3'].map((name) => settings.removePool(name))
  const ended = Promise.allSettled(words)
  nowMs = 8_001
  gate.promise.catch(() => undefined)
  gate.reject(new SignalboxError('store_unavailable', 'It does not answer.'))
  for (const end of await ended) {
    assert.equal(end.status, 'rejected')
    assert.ok(isSignalboxError(end.reason, 'store_unavailable'))
  }
  assert.ok(tried.length <= 1, `tried ${tried.join()}`)
})
