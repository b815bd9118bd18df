import assert from 'node:assert/strict'
import { test } from 'vitest'
import { decodeJourneys, findBreaks } from './journeys.ts'
import { readSource, readSources } from './sources.ts'

const page = await readSource('ARCHITECTURE.md')
const sources = await readSources()
const journeys = decodeJourneys(page)

test('each journey of ARCHITECTURE.md follows the imports from its first file to its last', () => {
  assert.deepEqual(
    journeys.map(({ title }) => title),
    ['A job on Postgres', 'A lock over HTTP on SQLite', 'A report to DingTalk', 'A task over WebSocket'],
  )
  assert.deepEqual(
    journeys.flatMap((journey) => findBreaks(journey, sources)),
    [],
  )
})

test('a job passes through at most 25 files', () => {
  const [job] = journeys
  assert.ok(job!.steps.length >= 10 && job!.steps.length + job!.joins.length <= 25)
})

test('ARCHITECTURE.md fits two pages, and describes each file in a few words', () => {
  const lines = page.trimEnd().split('\n')
  assert.ok(lines.length <= 150, `${lines.length} lines`)
  assert.deepEqual(
    lines.filter((line) => line.length > 120),
    [],
  )
  const wordy = journeys
    .flatMap(({ steps }) => steps)
    .filter(({ about }) => about.split(' ').length < 3 || about.split(' ').length > 10)
  assert.deepEqual(wordy, [])
})

test('a file that is missing, comes twice or is not imported by an earlier one is found', () => {
  const [journey] = decodeJourneys(
    [
      '### A thing',
      'Joined in: `box.ts`.',
      '1. `a/start.ts` takes the call',
      '2. `b/rules.ts` decides by the rules',
      '3. `store/rows.ts` writes it down',
      '4. `c/thread.ts` runs in a thread',
    ].join('\n'),
  )
  const texts = new Map([
    ['src/a/index.ts', "export { start } from './start.ts'\n"],
    ['src/box.ts', "import { Rows } from './store/rows.ts'\n"],
    ['src/a/start.ts', "import { decide } from '../b/index.ts'\nexport function start() {}\n"],
    ['src/b/index.ts', "export { decide } from './rules.ts'\nexport { other } from './other.ts'\n"],
    ['src/b/rules.ts', 'export function decide() {}\n'],
    ['src/b/other.ts', 'export function other() {}\n'],
    ['src/store/rows.ts', "new Worker(new URL('../c/thread.ts', import.meta.url))\n"],
    ['src/c/thread.ts', ''],
  ])
  assert.deepEqual(findBreaks(journey!, texts), [])
  const through = (path: string) => ({ ...journey!, steps: [journey!.steps[0]!, { path, about: '' }] })
  assert.deepEqual(findBreaks(through('src/b/other.ts'), texts), [
    'A thing: no earlier file and no join point imports src/b/other.ts',
  ])
  assert.deepEqual(findBreaks(through('src/a/start.ts'), texts), ['A thing: src/a/start.ts comes twice'])
  assert.deepEqual(findBreaks(through('src/none.ts'), texts), ['A thing: there is no src/none.ts'])
  const backwards = { ...journey!, joins: [], steps: [...journey!.steps].reverse() }
  assert.equal(findBreaks(backwards, texts).length, 4)
})
