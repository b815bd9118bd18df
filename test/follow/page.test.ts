import assert from 'node:assert/strict'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, test } from 'vitest'
import { followPage } from './page.ts'

const folder = mkdtempSync(join(tmpdir(), 'signalbox-follow-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))

async function follow(page: string, limitMs = 10_000): Promise<readonly string[]> {
  const lines: string[] = []
  const env = { PATH: process.env.PATH }
  await followPage(page, { folder, scratch: folder, env, limitMs }, (line) => lines.push(line))
  return lines.map((line) => line.replace(/ \(\d+ ms\)$/, ''))
}

const block = (info: string, text: string) => `\`\`\`${info}\n${text}\n\`\`\`\n`
const endless = (atInt: string) => `sh -c 'trap "${atInt}" INT; echo up; while :; do sleep 0.05; done'`

test('the test follows a page: files, running commands, their output, Ctrl+C', async () => {
  const lines = await follow(
    [
      block('sh terminal=server stays', endless('echo stopped >ended; exit 0')),
      block('output terminal=server', 'up'),
      block('ts file=deep/a.txt', 'written'),
      block('sh', 'export name=Ada; greet() { echo "Hello, $name!"; echo problem >&2; }'),
      block('sh', 'greet; cat deep/a.txt; echo 01m7fxrnxaekjm9qbwfrdqrkj3'),
      block('output', 'Hello, Ada!\nproblem\n…\n01k9z3v8qe0m4t9wq3rb5c7xkd'),
      '<!-- elsewhere: it takes a week -->',
      block('sh', 'false'),
      block('sh terminal=server', 'echo "and $(cat ended)"'),
      block('output terminal=server', 'and stopped'),
      block('sh stays', 'echo asleep; sleep 60'),
      block('output', 'asleep'),
    ].join('\n'),
  )
  assert.deepEqual(lines, [
    `line 1: started: ${endless('echo stopped >ended; exit 0')}`,
    'line 5: seen',
    'line 9: wrote deep/a.txt',
    'line 13: done: export name=Ada; greet() { echo "Hello, $name!"; echo problem >&2; }',
    'line 17: done: greet; cat deep/a.txt; echo 01m7fxrnxaekjm9qbwfrdqrkj3',
    'line 21: seen',
    'line 29: left out: it takes a week',
    'line 33: done: echo "and $(cat ended)"',
    'line 37: seen',
    'line 41: started: echo asleep; sleep 60',
    'line 45: seen',
  ])
  assert.equal(readFileSync(join(folder, 'deep/a.txt'), 'utf8'), 'written\n')
})

for (const [fault, page, reason] of [
  [
    'a command that fails',
    block('sh', 'echo one; false; echo two'),
    /^line 1: it ended with 1, and said:\none\n$/,
  ],
  [
    'another output',
    block('sh', 'echo one') + block('output', 'two'),
    /^line 4: the page shows\ntwo\nand what was seen is\none\n$/,
  ],
  ['more output', block('sh', 'echo one; echo two') + block('output', 'one'), /^line 4: the page shows/],
  [
    'a line that never comes',
    block('sh stays', 'echo up; sleep 60') + block('output', 'down'),
    /^line 4: it was not seen/,
  ],
  [
    'a server that ends',
    block('sh stays', 'echo up') + block('output', 'down'),
    /^line 4: (the page shows|it ended)/,
  ],
  [
    'a server that ends badly',
    block('sh stays', endless('exit 3')) + block('output', 'up'),
    /^it ended with 3 after Ctrl\+C/,
  ],
  ['an unknown word', block('sh stay', 'echo up'), /^line 1: unknown word "stay" behind the fence/],
  [
    'a promise in a comment',
    block('sh', `echo '{"next":"B"}' # {"next":"C"}`),
    /^line 1: it promises \{"next":"C"\}, and said:\n\{"next":"B"\}\n$/,
  ],
  ['an unknown language', block('zsh', 'echo up'), /^line 1: a block of "zsh" cannot be followed/],
  ['an address without a server', 'Open <http://127.0.0.1:1/>.', /^line 1: /],
] as const) {
  test(`the test finds a mistake on a page: ${fault}`, async () => {
    const message = await follow(page, 500).then(
      () => 'nothing was found',
      (error: Error) => error.message,
    )
    assert.match(message, reason)
  })
}
