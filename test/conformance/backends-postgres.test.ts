import { everyContract } from './contracts.ts'

everyContract('postgres')
