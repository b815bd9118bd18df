import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { test } from 'vitest'
import { readSource } from '../house/sources.ts'
import { findInterpreter } from '../support/interpreters.ts'
import { createWorkplace } from './command.ts'

/** The block of a README that lets nodes stand in line. */
function lockLines(page: string): string {
  const blocks = [...page.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, block]) => block!)
  const found = blocks.filter((block) => block.includes('/v1/locks'))
  assert.equal(found.length, 1)
  return found[0]!
}

for (const page of ['README.md', 'README.zh-CN.md']) {
  test(`with curl alone, the lines of ${page} tell the three scenarios as they stand there`, async () => {
    await findInterpreter('curl')
    const lines = lockLines(await readSource(page))
    using place = createWorkplace()
    await using server = await place.serve(['--log-level=warn'])
    const script = lines.replaceAll('http://127.0.0.1:7420', server.url)
    assert.notEqual(script, lines)
    const shell = spawn(await findInterpreter('bash'), ['-c', script], { stdio: ['ignore', 'pipe', 'pipe'] })
    const [out, err, [code]] = await Promise.all([
      text(shell.stdout),
      text(shell.stderr),
      once(shell, 'close'),
    ])
    assert.deepEqual([code, err], [0, ''])
    const [answers, events] = [out.split('\n').slice(0, 8), out.split('\n').slice(8).join('\n')]
    const [a, ...more] = answers.map((line) => JSON.parse(line))
    assert.deepEqual([a.status, typeof a.token], ['granted', 'number'])
    assert.equal(more[4].status, 'granted')
    more[4] = 'granted'
    assert.deepEqual(more, [
      { status: 'queued', position: 1 },
      { status: 'queued', position: 2 },
      { next: 'B' },
      { next: 'C' },
      'granted',
      { status: 'queued', position: 1 },
      { next: null },
    ])
    assert.match(events, /^event: completed\ndata: \{"result":"ok"\}$/m)
  })
}
