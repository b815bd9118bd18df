import { describe } from 'vitest'
import type { Candidate } from '../candidates.ts'
import { dueContract } from './due.ts'
import { firingContract } from './firing.ts'
import { writingContract } from './writing.ts'

/** All promises of an engine about schedules. */
export function schedulesContract(candidate: Candidate): void {
  describe('writing schedules', () => writingContract(candidate))
  describe('due schedules', () => dueContract(candidate))
  describe('firing schedules', () => firingContract(candidate))
}
