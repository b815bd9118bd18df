import { describe } from 'vitest'
import type { Candidate } from '../candidates.ts'
import { blockingContract } from './blocking.ts'
import { countingContract } from './counting.ts'
import { keepingContract, keepingInTransactions } from './keeping.ts'

/** All promises of an engine about failed attempts, error groups and blocked times. */
export function attemptsContract(candidate: Candidate): void {
  describe('storing failed attempts', () => keepingContract(candidate))
  describe('storing failed attempts in transactions', () => keepingInTransactions(candidate))
  describe('counting errors', () => countingContract(candidate))
  describe('times in which jobs were blocked', () => blockingContract(candidate))
}
