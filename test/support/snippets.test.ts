import assert from 'node:assert/strict'
import { test } from 'vitest'
import { promisesIn, snippetsOf } from './snippets.ts'

test('the blocks of a page come with their language, their attributes and their line', () => {
  const page = [
    '# A page',
    '',
    '```ts file=hello.ts',
    'const fence = "```"',
    '',
    '```',
    'Prose, `code` and ```more code```.',
    '<!-- follow: another terminal -->',
    '',
    '````sh',
    '```',
    'echo',
    '````',
    '- a list',
    '',
    '  ~~~',
    '    deeper',
    '  less',
    '  ~~~',
    '```output',
    'never closed',
    '',
  ].join('\n')
  assert.deepEqual(snippetsOf(page), [
    { language: 'ts', info: 'file=hello.ts', text: 'const fence = "```"\n\n', line: 3, comment: undefined },
    { language: 'sh', info: '', text: '```\necho\n', line: 10, comment: 'follow: another terminal' },
    { language: '', info: '', text: '  deeper\nless\n', line: 16, comment: undefined },
    { language: 'output', info: '', text: 'never closed\n', line: 20, comment: undefined },
  ])
})

test('a page without blocks has none', () => {
  assert.deepEqual(snippetsOf('Nothing but `code`.\n'), [])
})

test('a comment that starts like JSON is the expected output of a line', () => {
  const [queued, other, ...more] = promisesIn(
    'ask B # {"status":"queued","position":…}\necho  # "next":null\n# {"a":1}\nls # a list\n',
  )
  assert.deepEqual(more, [])
  assert.match('x\n{"status":"queued","position":12}\n', queued!.pattern)
  assert.doesNotMatch('{"status":"granted"}', queued!.pattern)
  assert.equal(other!.text, '"next":null')
})
