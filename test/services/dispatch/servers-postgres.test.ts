import { afterAll, describe } from 'vitest'
import { tellSettings } from '../../dispatch/cluster/settings.ts'
import { tellStories } from '../../dispatch/cluster/stories.ts'
import { hasService, ownPostgres } from '../../support/services/own.ts'
import { storesAt } from './stage.ts'

describe.runIf(hasService('postgres'))('servers that share a fleet', () => {
  const stores = storesAt(ownPostgres)
  afterAll(() => stores.close())
  tellStories('postgres', stores.open)
  tellSettings('postgres', stores.open)
})
