import { describe } from 'vitest'
import type { LocksCandidate } from '../candidates.ts'
import { conflictsContract } from './conflicts.ts'
import { crowdsContract } from './crowds.ts'
import { deadlocksContract } from './deadlocks.ts'
import { lookingContract } from './looking.ts'
import { namesContract } from './names.ts'
import { owningContract } from './owning.ts'
import { sharingContract } from './sharing.ts'
import { sweepingContract } from './sweeping.ts'
import { waitingContract } from './wait-queues.ts'

/** Everything that an engine promises of locks. */
export function locksContract(candidate: LocksCandidate): void {
  describe('waiting', () => waitingContract(candidate))
  describe('owning', () => owningContract(candidate))
  describe('names', () => namesContract(candidate))
  describe('looking', () => lookingContract(candidate))
  describe('sweeping', () => sweepingContract(candidate))
  describe('sharing', () => sharingContract(candidate))
  describe('deadlocks', () => deadlocksContract(candidate))
  describe('conflicts', () => conflictsContract(candidate))
  describe('crowds', () => crowdsContract(candidate))
}
