import { describe } from 'vitest'
import { crowdsContract } from './crowds.ts'
import { forgettingContract } from './forgetting.ts'
import { namesContract } from './names.ts'
import type { FleetCandidate } from './opening.ts'
import { readingContract } from './reading.ts'
import { writingContract } from './writing.ts'

/** Everything that an engine promises of the board that servers of a fleet share. */
export function fleetContract(candidate: FleetCandidate): void {
  describe('writing', () => writingContract(candidate))
  describe('reading', () => readingContract(candidate))
  describe('forgetting', () => forgettingContract(candidate))
  describe('names and documents', () => namesContract(candidate))
  describe('crowds', () => crowdsContract(candidate))
}
