import { writingContractsInThread } from './contracts.ts'

writingContractsInThread()
