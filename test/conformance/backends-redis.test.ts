import { locksOnRedis } from './contracts.ts'

locksOnRedis()
