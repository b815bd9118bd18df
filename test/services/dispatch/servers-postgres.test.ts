import { afterAll, describe } from 'vitest'
import { testSettings } from '../../dispatch/cluster/settings.ts'
import { testStories } from '../../dispatch/cluster/stories.ts'
import { hasService, ownPostgres } from '../../support/services/own.ts'
import { storesAt } from './stage.ts'

describe.runIf(hasService('postgres'))('servers that share a fleet', () => {
  const stores = storesAt(ownPostgres)
  afterAll(() => stores.close())
  testStories('postgres', stores.open)
  testSettings('postgres', stores.open)
})
