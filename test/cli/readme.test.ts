import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { text } from 'node:stream/consumers'
import { test } from 'vitest'
import { readSource } from '../house/sources.ts'
import { findInterpreter } from '../support/interpreters.ts'
import { createWorkplace } from './command.ts'

/** The block of a README that takes a job from add to ack. */
function curlLines(page: string): string {
  const blocks = [...page.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, block]) => block!)
  const found = blocks.filter((block) => block.includes('/claim'))
  assert.equal(found.length, 1)
  return found[0]!
}

for (const page of ['README.md', 'README.zh-CN.md']) {
  test(`the five curl lines of ${page} take a job from add to ack, as they stand there`, async () => {
    await findInterpreter('curl')
    const lines = curlLines(await readSource(page))
    assert.equal(lines.match(/\bcurl /g)?.length, 5)
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
    const [ready, acked, completed, ...more] = out
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
    assert.deepEqual(more, [])
    assert.equal(ready.state, 'ready')
    assert.deepEqual(acked, { id: ready.id, state: 'completed' })
    assert.deepEqual(
      [completed.id, completed.state, completed.result],
      [ready.id, 'completed', 'Hello, Ada!'],
    )
  })
}
