/**
 * From the start of `signalbox serve` on an empty folder until `/readyz` says yes, as `npm start` runs it. Each is stopped
 * as operators stop servers, so all but the first start where one has run before, with what Node then keeps of it.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { within } from '../../../test/support/deadline.ts'
import type { Contestant, Trial } from '../../case.ts'
import { atMost } from '../../goal.ts'
import { groundOf } from '../jobs/ground.ts'
import { createPlace } from '../jobs/place.ts'

/** Far more than the goal: who takes longer has no figure but a fault. */
const readyMs = 60_000

const signalbox: Contestant = async (conditions) => {
  await using place = await createPlace(conditions, 'sqlite')
  const startedAt = performance.now()
  const child = spawn(
    process.execPath,
    [fileURLToPath(new URL('../../../src/cli/main.ts', import.meta.url)), 'serve', '--port', '0', '--json'],
    { env: { ...process.env, SIGNALBOX_DATABASE: place.url }, stdio: ['ignore', 'pipe', 'inherit'] },
  )
  try {
    const signal = AbortSignal.timeout(readyMs)
    const [line] = (await once(child.stdout.setEncoding('utf8'), 'data', { signal })) as [string]
    const { url } = JSON.parse(line.split('\n')[0]!) as { url: string }
    while ((await fetch(`${url}/readyz`, { signal })).status !== 200) await sleep(5, undefined, { signal })
    return { ms: performance.now() - startedAt }
  } finally {
    child.kill('SIGTERM')
    if (child.exitCode === null && child.signalCode === null)
      await within(10_000, 'the end of the server', once(child, 'exit'))
  }
}

export const startTrial: Trial = {
  name: 'start',
  open: groundOf('sqlite'),
  contestants: { signalbox },
  cases: [
    { name: 'start', unit: 'ms to /readyz', better: 'lower', figure: 'ms', peers: [], goal: atMost(1_000) },
  ],
}
