import assert from 'node:assert/strict'
import { test } from 'vitest'
import { findReadmeGaps } from './readme.ts'
import { readSource } from './sources.ts'

test('both READMEs start with the three commands and agree', async () => {
  const pages = await Promise.all([readSource('README.md'), readSource('README.zh-CN.md')])
  assert.deepEqual(findReadmeGaps(...pages), [])
})

const english = `# Signalbox
\`\`\`sh
npm install signalbox
npm ci && npm start
npm ci && npm test
\`\`\`
Use the **library** in a program of yours; use the **server** for all others.
## Use
\`\`\`ts
// ## not a heading
add(1)
\`\`\`
`
const chinese = english
  .replace('## Use', '## 使用')
  .replace(/Use the .*/, '自己的程序用**库**，其他的用**服务器**。')

test('READMEs that agree are not reported', () => {
  assert.deepEqual(findReadmeGaps(english, chinese), [])
})

test('a README that lacks a command, a section or a line of code is found', () => {
  for (const [pages, reason] of [
    [
      [english.replace('npm ci && npm test', ''), chinese.replace('npm ci && npm test', '')],
      /npm test" is not in the/,
    ],
    [
      [english.replace('npm install signalbox', ''), chinese],
      /README\.md: "npm install signalbox" is not in the/,
    ],
    [['\n'.repeat(40) + english, chinese], /README\.md: "npm ci && npm start" is not in the first 40 lines/],
    [[english.replace('; use', '. Use'), chinese], /README\.md: no sentence on the first screen says when/],
    [[english, chinese.replace('**库**', '库')], /README\.zh-CN\.md: no sentence on the first screen/],
    [[english, chinese.replace('## 使用', '使用')], /README\.md has 1 sections, README\.zh-CN\.md 0/],
    [[english, chinese.replace('add(1)', 'add(2)')], /code block 2 differs/],
    [[`${english}\`\`\`\nx\n\`\`\`\n`, chinese], /README\.md has 3 code blocks, README\.zh-CN\.md 2/],
  ] as const) {
    const found = findReadmeGaps(pages[0], pages[1])
    assert.ok(found.length > 0)
    assert.match(found.join('\n'), reason)
  }
})
