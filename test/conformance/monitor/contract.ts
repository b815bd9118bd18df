import { describe } from 'vitest'
import type { Candidate } from '../candidates.ts'
import { channelsContract } from './channels.ts'
import { crowdsContract } from './crowds.ts'
import { lookingContract } from './looking.ts'
import { rulesContract } from './rules.ts'
import { scenariosContract } from './scenarios.ts'
import { sendingContract } from './sending.ts'
import { windowsContract } from './windows.ts'
import { writingContract } from './writing.ts'

/** All promises of an engine about the monitor. */
export function monitorContract(candidate: Candidate): void {
  describe('writing reports', () => writingContract(candidate))
  describe('rules', () => rulesContract(candidate))
  describe('senders of channels', () => channelsContract(candidate))
  describe('sending', () => sendingContract(candidate))
  describe('windows', () => windowsContract(candidate))
  describe('reading the monitor', () => lookingContract(candidate))
  describe('many callers at once', () => crowdsContract(candidate))
  describe('scenarios', () => scenariosContract(candidate))
}
