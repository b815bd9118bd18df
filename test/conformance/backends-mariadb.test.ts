import { everyContract } from './contracts.ts'

everyContract('mariadb')
