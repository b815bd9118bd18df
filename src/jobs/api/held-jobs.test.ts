import assert from 'node:assert/strict'
import { test } from 'vitest'
import type { ClaimedJob } from '../job.ts'
import { backoffDefaults } from '../lifecycle.ts'
import { RecentClaims } from './held-jobs.ts'

function aClaim(id: string, token = '1.a'): ClaimedJob {
  const known = {
    id,
    token,
    attempt: 2,
    maxAttempts: 5,
    handBackCount: 1,
    snoozeCount: 2,
    backoff: backoffDefaults,
    queue: 'mail',
    kind: 'welcome',
  }
  return known as ClaimedJob
}

test('a claim is known by its id and token, until it ended', () => {
  const recent = new RecentClaims()
  recent.remember([aClaim('a'), aClaim('b')])
  const { claimedAt, ...known } = recent.find('a', '1.a')!
  assert.deepEqual(known, aClaim('a'))
  assert.ok(claimedAt! <= performance.now())
  assert.equal(recent.find('a', '2.b'), undefined, 'another attempt is another claim')
  recent.forget('a')
  assert.equal(recent.find('a', '1.a'), undefined)
  recent.remember([aClaim('b', '2.c')])
  assert.equal(recent.find('b', '1.a'), undefined)
  assert.equal(recent.find('b', '2.c')?.attempt, 2)
})

test('only the latest claims are remembered', () => {
  const recent = new RecentClaims()
  for (let at = 0; at < 12; at++)
    recent.remember(Array.from({ length: 1_000 }, (_, number) => aClaim(`${at * 1_000 + number}`)))
  assert.equal(recent.find('1999', '1.a'), undefined)
  assert.ok(recent.find('2000', '1.a'))
  assert.ok(recent.find('11999', '1.a'))
})
