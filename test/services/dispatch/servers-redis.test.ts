import { afterAll, describe } from 'vitest'
import { ownSqlite } from '../../conformance/candidates.ts'
import { tellProgress } from '../../dispatch/cluster/progress.ts'
import { tellSettings } from '../../dispatch/cluster/settings.ts'
import { tellStories } from '../../dispatch/cluster/stories.ts'
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
  tellStories('sqlite and redis', sqlite.open)
  tellSettings('sqlite and redis', sqlite.open)
})

describe.runIf(hasService('redis') && hasService('postgres'))('servers that share a fleet', () => {
  const postgres = storesAt(() => withRedis(ownPostgres))
  afterAll(() => postgres.close())
  tellStories('postgres and redis', postgres.open)
  tellProgress('postgres and redis', postgres.open)
})
