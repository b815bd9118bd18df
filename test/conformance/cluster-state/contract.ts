import { describe } from 'vitest'
import { crowdsContract } from './crowds.ts'
import { forgettingContract } from './forgetting.ts'
import { namesContract } from './names.ts'
import type { ClusterStateCandidate } from './opening.ts'
import { readingContract } from './reading.ts'
import { writingContract } from './writing.ts'

/** Everything that an engine promises of the cluster state. */
export function clusterStateContract(candidate: ClusterStateCandidate): void {
  describe('writing', () => writingContract(candidate))
  describe('reading', () => readingContract(candidate))
  describe('forgetting', () => forgettingContract(candidate))
  describe('names and documents', () => namesContract(candidate))
  describe('crowds', () => crowdsContract(candidate))
}
