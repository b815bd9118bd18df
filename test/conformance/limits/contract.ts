import { describe } from 'vitest'
import type { Candidate } from '../candidates.ts'
import { countingContract } from './counting.ts'
import { crowdsContract } from './crowds.ts'
import { keysContract } from './keys.ts'
import { mixedContract } from './mixed.ts'
import { ratesContract } from './rates.ts'
import { settingContract } from './setting.ts'

/** All promises of an engine about the limits of queues. */
export function limitsContract(candidate: Candidate): void {
  describe('counting running jobs', () => countingContract(candidate))
  describe('limits by key', () => keysContract(candidate))
  describe('rates', () => ratesContract(candidate))
  describe('setting limits', () => settingContract(candidate))
  describe('limited queues among others', () => mixedContract(candidate))
  describe('many claimers', () => crowdsContract(candidate))
}
