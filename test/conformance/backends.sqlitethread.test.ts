import { everyContractInThread } from './contracts.ts'

everyContractInThread()
