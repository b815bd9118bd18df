import { everyContract } from './contracts.ts'

everyContract('memory')
