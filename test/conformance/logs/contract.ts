import { describe } from 'vitest'
import type { Candidate } from '../candidates.ts'
import { forgettingContract } from './forgetting.ts'
import { linesContract } from './logs.ts'
import { progressContract } from './progress.ts'

/** All promises of an engine about log lines and progress. */
export function logsContract(candidate: Candidate): void {
  describe('progress', () => progressContract(candidate))
  describe('log lines', () => linesContract(candidate))
  describe('deleting log lines and progress', () => forgettingContract(candidate))
}
