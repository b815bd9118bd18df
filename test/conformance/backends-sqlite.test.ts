import { everyContract } from './contracts.ts'

everyContract('sqlite')
