import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { open } from 'signalbox'
import { test } from 'vitest'
import { assertOnlyText } from './injections.ts'

// On Postgres and MariaDB: test/services/injection.test.ts.

test('SQL in any text that a route accepts is stored as text (memory)', async () => {
  await using box = await open('memory:')
  await assertOnlyText(box)
})

test('SQL in any text that a route accepts is stored as text (sqlite)', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'signalbox-injection-'))
  try {
    await using box = await open(`sqlite:${join(folder, 'signalbox.db')}`)
    await assertOnlyText(box)
  } finally {
    await rm(folder, { recursive: true })
  }
})
