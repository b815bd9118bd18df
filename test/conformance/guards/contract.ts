import { describe } from 'vitest'
import { claimingContract } from './claiming.ts'
import { crowdsContract } from './crowds.ts'
import { listingContract } from './listing.ts'
import { manyContract } from './many.ts'
import { namesContract } from './names.ts'
import type { GuardsCandidate } from './opening.ts'
import { settlingContract } from './settling.ts'
import { transactionsContract } from './transactions.ts'
import { windowsContract } from './windows.ts'

/** Everything that an engine promises of guards. */
export function guardsContract(candidate: GuardsCandidate): void {
  describe('claiming', () => claimingContract(candidate))
  describe('settling', () => settlingContract(candidate))
  describe('windows', () => windowsContract(candidate))
  describe('many keys', () => manyContract(candidate))
  describe('names', () => namesContract(candidate))
  describe('listing and pruning', () => listingContract(candidate))
  describe('crowds', () => crowdsContract(candidate))
  describe('transactions', () => transactionsContract(candidate))
}
