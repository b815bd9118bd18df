import { openingTest } from './engines.ts'
import { crashMigrations } from './migrations.ts'

openingTest('many openers, and openers killed with -9, come to one schema', (engine, server) =>
  crashMigrations(engine, server, { seed: 1, openers: 4, kills: 5 }),
)
