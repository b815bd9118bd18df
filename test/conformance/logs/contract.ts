import { describe } from 'vitest'
import type { Candidate } from '../candidates.ts'
import { forgettingContract } from './forgetting.ts'
import { logsContract } from './logs.ts'
import { progressContract } from './progress.ts'

/** Everything that an engine promises of what attempts say of themselves. */
export function notesContract(candidate: Candidate): void {
  describe('progress', () => progressContract(candidate))
  describe('logs', () => logsContract(candidate))
  describe('forgetting', () => forgettingContract(candidate))
}
