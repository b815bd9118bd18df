import { describe } from 'vitest'
import { crowdsContract } from './crowds.ts'
import { forgettingContract } from './forgetting.ts'
import { namesContract } from './names.ts'
import type { ClusterStateCandidate } from './opening.ts'
import { readingContract } from './reading.ts'
import { writingContract } from './writing.ts'

/** All promises of an engine about the cluster state. */
export function clusterStateContract(candidate: ClusterStateCandidate): void {
  describe('writing rows', () => writingContract(candidate))
  describe('reading rows', () => readingContract(candidate))
  describe('pruning removed rows', () => forgettingContract(candidate))
  describe('names and documents', () => namesContract(candidate))
  describe('many writers at once', () => crowdsContract(candidate))
}
