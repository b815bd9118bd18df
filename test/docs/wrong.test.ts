/** The test harness itself: each wrong block of a page must be reported. */
import assert from 'node:assert/strict'
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'vitest'
import { decodePage } from './blocks.ts'
import { makeFolder, runPage } from './page-run.ts'
import { offerOf, printProgram } from './program.ts'

const fenced = (language: string, ...lines: readonly string[]) => [`\`\`\`${language}`, ...lines, '```', '']

test('a block that fails, or breaks its promise, is reported with its line', {
  timeout: 60_000,
}, async () => {
  const page = decodePage(
    'docs/wrong.md',
    [
      '# Wrong',
      '',
      ...fenced('ts', "await box.jobs.add('mail')", "throw new Error('thrown in line 5')"),
      ...fenced('ts', "const { id } = await box.jobs.add('mail')"),
      ...fenced('sh', 'false', 'echo not reached'),
      ...fenced('sh', 'signalbox no-such-command'),
      ...fenced('sh', 'echo \'{"a":1}\' # {"a":2}'),
      ...fenced('sh', 'echo \'{"a":1,"b":2}\' # {"a":…}'),
      ...fenced('sql', 'SELECT nothing FROM job_queue'),
      ...fenced('json', '{}'),
      ...fenced(
        'ts',
        'await new Promise((resolve) => setTimeout(resolve, 1))',
        'queueMicrotask(() => {',
        "  throw new Error('late')",
        '})',
      ),
    ].join('\n'),
  )
  const folder = makeFolder()
  try {
    const complaints = await runPage(page, folder)
    const lines = complaints.map((complaint) => /^docs\/wrong\.md:(\d+): (.*)/.exec(complaint)?.slice(1, 3))
    assert.deepEqual(
      lines.map((line) => line?.[0]),
      ['3', '12', '17', '21', '29', '33', '37'],
      complaints.join('\n'),
    )
    assert.match(complaints[0]!, /thrown in line 5[\s\S]*3\.ts:5:/)
  } finally {
    rmSync(folder, { recursive: true, force: true })
  }
})

test('a program keeps its lines, imports only the names it uses, and may redeclare names of its prelude', () => {
  const [block] = decodePage(
    'docs/a.md',
    [
      '# A',
      '',
      '```ts',
      "import { open } from 'signalbox' // as ever",
      '',
      "await using box = await open('memory:')",
      'const { a, b: c } = box',
      '```',
    ].join('\n'),
  ).blocks
  const offer = new Map([
    ['box', 'value'],
    ['open', 'value'],
    ['Pod', 'type'],
  ] as const)
  const lines = printProgram(block!, block!.text, '/prelude.ts', offer).split('\n')
  assert.match(lines[0]!, /^import \{ box \} from "\/prelude\.ts";/)
  assert.equal(lines[3], "import { open } from 'signalbox'; { // as ever")
  assert.equal(lines[5], "await using box = await open('memory:')")
  assert.equal(lines[7], 'await $check({ box, a, c }) }')
})

test('a prelude offers its own exports and those it passes on', () => {
  const offer = offerOf(join(import.meta.dirname, 'preludes/flows.ts'))
  assert.deepEqual([offer.get('open'), offer.get('box'), offer.get('film')], ['value', 'value', 'value'])
  assert.equal(offerOf(join(import.meta.dirname, 'preludes/workqueue.ts')).get('Pod'), 'type')
})
