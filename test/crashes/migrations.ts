import assert from 'node:assert/strict'
import { join } from 'node:path'
import { openNextMigrator } from '../support/next-release.ts'
import { type Program, startProgram } from '../support/services/program.ts'
import { ask, createGround, type Ground, type SqlEngine } from './ground.ts'
import { createRandom } from './random.ts'
import type { Counts } from './stage.ts'

export interface MigrationsOptions {
  readonly seed: number
  /** How many processes open the empty database at once. */
  readonly openers: number
  /** How many openers are killed, before one is let through. */
  readonly kills: number
}

/** Once an opener came through, the kills that follow find nothing to disturb. */
const killsPerDatabase = 4

const script = join(import.meta.dirname, 'opener-process.ts')

/**
 * M1: many processes open an empty database at once, and openers of another are killed with -9 at random moments until
 * one is let through. Each time the schema is the one that a single undisturbed opener makes, and every step is on
 * record once.
 */
export async function crashMigrations(
  engine: SqlEngine,
  server: string | undefined,
  { seed, openers, kills }: MigrationsOptions,
): Promise<Counts> {
  const random = createRandom(seed)
  await using calm = await createGround(engine, server)
  const alone = await openDatabase(calm)
  const expected = await schemaOf(calm)
  const expectedCount = await countTables(calm)
  const tookMs = Number(alone.tail())

  await using crowded = await createGround(engine, server)
  await Promise.all(Array.from({ length: openers }, () => openDatabase(crowded)))
  assert.deepEqual(await schemaOf(crowded), expected, 'many openers at once make the schema that one makes')

  let died = 0
  let halfway = 0
  for (let left = kills; left > 0; left -= killsPerDatabase) {
    await using harmed = await createGround(engine, server)
    const none = await countTables(harmed)
    for (let kill = 0; kill < Math.min(left, killsPerDatabase); kill++) {
      await using opener = await startOpener(harmed, String(random() * tookMs * 1.2))
      await opener.end
      if (opener.ended === 'signal SIGKILL') died++
      else assert.equal(opener.ended, 'code 0', opener.tail())
      const count = await countTables(harmed)
      if (count > none && count < expectedCount) halfway++
    }
    await openDatabase(harmed)
    assert.deepEqual(await schemaOf(harmed), expected, 'killed openers leave the schema that one makes')
  }
  return { openers, 'openers killed': died, 'found halfway': halfway }
}

async function countTables({ engine, url }: Ground): Promise<number> {
  return (await ask(url, schemaQueries[engine][0])).length
}

async function openDatabase(ground: Ground): Promise<Program> {
  await using opener = await startOpener(ground)
  await opener.end
  assert.equal(opener.ended, 'code 0', opener.tail())
  return opener
}

function startOpener({ url }: Ground, ...args: readonly string[]): Promise<Program> {
  const flags = ['--conditions=source', '--disable-warning=ExperimentalWarning']
  return startProgram(process.execPath, [...flags, script, url, ...args])
}

const schemaQueries: Record<SqlEngine, readonly [string, ...string[]]> = {
  sqlite: ['SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name'],
  postgres: [
    `SELECT table_name, column_name, data_type, is_nullable, column_default FROM information_schema.columns
     WHERE table_schema = 'public' ORDER BY table_name, column_name`,
    `SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = 'public' ORDER BY indexname`,
    `SELECT conname, pg_get_constraintdef(oid) AS def FROM pg_constraint
     WHERE connamespace = 'public'::regnamespace ORDER BY conname, def`,
    `SELECT viewname, definition FROM pg_views WHERE schemaname = 'public' ORDER BY viewname`,
    `SELECT proname, prosrc FROM pg_proc WHERE pronamespace = 'public'::regnamespace ORDER BY proname`,
  ],
  mariadb: [
    `SELECT table_name AS t, engine AS e, table_collation AS c FROM information_schema.tables
     WHERE table_schema = database() ORDER BY table_name`,
    `SELECT table_name AS t, column_name AS n, column_type AS y, is_nullable AS u, column_default AS d,
            collation_name AS c, extra AS x
     FROM information_schema.columns WHERE table_schema = database() ORDER BY table_name, column_name`,
    `SELECT table_name AS t, index_name AS i, seq_in_index AS s, column_name AS c, non_unique AS u
     FROM information_schema.statistics WHERE table_schema = database()
     ORDER BY table_name, index_name, seq_in_index`,
  ],
}

/** The whole schema, as the database reports it, and its recorded steps. */
async function schemaOf({ engine, url }: Ground): Promise<unknown> {
  const parts = []
  for (const query of schemaQueries[engine]) parts.push(await ask(url, query))
  const steps = await ask(url, 'SELECT number FROM signalbox_migration ORDER BY number')
  await using migrator = openNextMigrator(url)
  const { current, latest, pending } = await migrator.status()
  assert.deepEqual(
    steps.map(({ number }) => Number(number)),
    Array.from({ length: latest }, (_, index) => index + 1),
    'every step is on record once',
  )
  return { parts, current, pending }
}
