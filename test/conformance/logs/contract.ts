import { describe } from 'vitest'
import type { Candidate } from '../candidates.ts'
import { forgettingContract } from './forgetting.ts'
import { linesContract } from './logs.ts'
import { progressContract } from './progress.ts'

/** Everything that an engine promises of what attempts say of themselves. */
export function logsContract(candidate: Candidate): void {
  describe('progress', () => progressContract(candidate))
  describe('log lines', () => linesContract(candidate))
  describe('deleting log lines and progress', () => forgettingContract(candidate))
}
