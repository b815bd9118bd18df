import { describe } from 'vitest'
import type { Candidate } from '../candidates.ts'
import { countingContract } from './counting.ts'
import { crowdsContract } from './crowds.ts'
import { keysContract } from './keys.ts'
import { mixedContract } from './mixed.ts'
import { ratesContract } from './rates.ts'
import { settingContract } from './setting.ts'

/** Everything that an engine promises of the limits of queues. */
export function limitsContract(candidate: Candidate): void {
  describe('counting', () => countingContract(candidate))
  describe('keys', () => keysContract(candidate))
  describe('rates', () => ratesContract(candidate))
  describe('setting', () => settingContract(candidate))
  describe('among others', () => mixedContract(candidate))
  describe('crowds', () => crowdsContract(candidate))
}
