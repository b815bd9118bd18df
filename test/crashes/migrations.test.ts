import { openingTest } from './engines.ts'
import { crashMigrations } from './migrations.ts'

openingTest('many concurrent openers, some killed with -9, create one schema', (engine, server) =>
  crashMigrations(engine, server, { seed: 1, openers: 4, kills: 5 }),
)
