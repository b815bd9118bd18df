import assert from 'node:assert/strict'
import { beforeEach, describe, test } from 'vitest'
import type { LocksCandidate } from '../candidates.ts'
import { crowdsContract } from './crowds.ts'
import { linesContract } from './lines.ts'
import { lookingContract } from './looking.ts'
import { namesContract } from './names.ts'
import { owningContract } from './owning.ts'
import { sharingContract } from './sharing.ts'
import { sweepingContract } from './sweeping.ts'

/** Everything that an engine promises of locks. One that has none fails one test, by name, and not all of them. */
export function locksContract(candidate: LocksCandidate): void {
  let has: Promise<boolean> | undefined
  const hasLocks = () => {
    has ??= keepsLocks(candidate)
    return has
  }

  test('it keeps locks', async () => assert.ok(await hasLocks(), `${candidate.title} keeps no locks`))

  describe('with its locks', () => {
    beforeEach(async ({ skip }) => {
      if (!(await hasLocks())) skip('there are none')
    })
    describe('lines', () => linesContract(candidate))
    describe('owning', () => owningContract(candidate))
    describe('names', () => namesContract(candidate))
    describe('looking', () => lookingContract(candidate))
    describe('sweeping', () => sweepingContract(candidate))
    describe('sharing', () => sharingContract(candidate))
    describe('crowds', () => crowdsContract(candidate))
  })
}

async function keepsLocks({ open }: LocksCandidate): Promise<boolean> {
  try {
    await using backend = await open()
    return backend.locks !== undefined
  } catch {
    return false
  }
}
