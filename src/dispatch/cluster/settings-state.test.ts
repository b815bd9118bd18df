import assert from 'node:assert/strict'
import { test } from 'vitest'
import { isSignalboxError, SignalboxError } from '../../core/errors.ts'
import { SettingsBoard, type SettingsParts } from './settings-state.ts'

test('of many words that the board does not take, those that waited too long are given up unwritten', async () => {
  let nowMs = 0
  const gate = Promise.withResolvers<never>()
  const tried: string[] = []
  const board = {
    onChange: () => undefined,
    change: (_kind: string, key: string) => {
      tried.push(key)
      return gate.promise
    },
  }
  const settings = new SettingsBoard({ board, monotonicMs: () => nowMs } as unknown as SettingsParts)
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
