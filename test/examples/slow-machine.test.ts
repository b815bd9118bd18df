/** Examples must hold on the machines of their readers, which are busy with other things. */
import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { test } from 'vitest'

const example = fileURLToPath(new URL('../../examples/translate.ts', import.meta.url))

/** Loaded before each server and node: it takes as long to start as on a machine whose cores are all taken. */
const slowStart = `data:text/javascript,${encodeURIComponent(
  `if (['server', 'node'].includes(process.argv[2])) await new Promise((resolve) => setTimeout(resolve, 6_000))`,
)}`

test('the translating fleet passes its own proof on a machine where each process takes seconds to start', async () => {
  // As the README runs it: without CI in the environment.
  const { CI: _, ...env } = process.env
  const child = spawn(process.execPath, [example, '--json'], {
    env: { ...env, NODE_OPTIONS: `--import=${slowStart}` },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  let out = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => (out += text))
  const [code] = await once(child, 'close')
  const { isGood, problems } = JSON.parse(out)
  assert.deepEqual([code, isGood, problems], [0, true, []])
}, 250_000)
