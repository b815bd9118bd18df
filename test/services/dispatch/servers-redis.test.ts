import { afterAll, describe } from 'vitest'
import { ownSqlite } from '../../conformance/candidates.ts'
import { testProgress } from '../../dispatch/cluster/progress.ts'
import { testSettings } from '../../dispatch/cluster/settings.ts'
import { testStories } from '../../dispatch/cluster/stories.ts'
import { hasService, ownPostgres, ownRedis } from '../../support/services/own.ts'
import { type Place, storesAt } from './stage.ts'

/** Jobs in one store, the cluster state in Redis. */
async function withRedis(open: () => Promise<Place>): Promise<Place> {
  const [jobs, redis] = await Promise.all([open(), ownRedis()])
  return {
    url: jobs.url,
    redis: redis.url,
    async [Symbol.asyncDispose]() {
      await Promise.all([jobs[Symbol.asyncDispose](), redis[Symbol.asyncDispose]()])
    },
  }
}

describe.runIf(hasService('redis'))('servers that share a fleet', () => {
  const sqlite = storesAt(() => withRedis(ownSqlite))
  afterAll(() => sqlite.close())
  testStories('sqlite and redis', sqlite.open)
  testSettings('sqlite and redis', sqlite.open)
})

describe.runIf(hasService('redis') && hasService('postgres'))('servers that share a fleet', () => {
  const postgres = storesAt(() => withRedis(ownPostgres))
  afterAll(() => postgres.close())
  testStories('postgres and redis', postgres.open)
  testProgress('postgres and redis', postgres.open)
})
