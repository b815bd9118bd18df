import { describe } from 'vitest'
import type { Candidate } from '../candidates.ts'
import { addingContract } from './adding.ts'
import { forgettingContract } from './forgetting.ts'
import { grantingContract } from './granting.ts'
import { meetingContract } from './meeting.ts'
import { tendingContract } from './tending.ts'

/** All promises of an engine about dependencies. */
export function dependenciesContract(candidate: Candidate): void {
  describe('adding jobs with dependencies', () => addingContract(candidate))
  describe('meeting dependencies', () => meetingContract(candidate))
  describe('tending lock dependencies', () => tendingContract(candidate))
  describe('granting locks to jobs', () => grantingContract(candidate))
  describe('deleting dependencies', () => forgettingContract(candidate))
}
