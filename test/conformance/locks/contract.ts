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

/** All promises of an engine about locks. */
export function locksContract(candidate: LocksCandidate): void {
  describe('waiting in a wait queue', () => waitingContract(candidate))
  describe('holding a lock', () => owningContract(candidate))
  describe('names of locks', () => namesContract(candidate))
  describe('listing wait queues', () => lookingContract(candidate))
  describe('sweeping wait queues', () => sweepingContract(candidate))
  describe('several backends on one store', () => sharingContract(candidate))
  describe('deadlocks', () => deadlocksContract(candidate))
  describe('operations that exclude each other', () => conflictsContract(candidate))
  describe('many waiters at once', () => crowdsContract(candidate))
}
