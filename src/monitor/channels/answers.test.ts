import assert from 'node:assert/strict'
import { test } from 'vitest'
import { createHiding } from './answers.ts'

const url = 'https://hooks.example/services/a%2Fkey-in-the-path?token=a%2Fkey-in-the-query'

test('a provider that repeats a key of its channel, plain or decoded, does not bring it into a reason', () => {
  const basic = `Basic ${Buffer.from('robot:a-pass:word').toString('base64')}`
  const headers = ['Bearer key-in-a-header', basic, 'session=key-in-a-cookie; mode=x']
  const hide = createHiding([{ url, secret: 'key-that-signs' }], headers)
  for (const key of [
    url,
    'a%2Fkey-in-the-path',
    'a/key-in-the-path',
    'a%2Fkey-in-the-query',
    'a/key-in-the-query',
    'key-that-signs',
    'Bearer key-in-a-header',
    'key-in-a-header',
    basic.slice(6),
    'robot:a-pass:word',
    'a-pass:word',
    'key-in-a-cookie',
  ])
    assert.equal(hide(`401: "${key}" is unknown.`), '401: "***" is unknown.', key)
})

test('words that every provider uses stay readable', () => {
  const hide = createHiding([{ url, secret: null }], ['Bearer key-in-a-header', 'x'])
  const words = 'The services of hooks.example take a Bearer token, x times.'
  assert.equal(hide(words), words)
})
