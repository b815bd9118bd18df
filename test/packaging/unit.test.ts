import assert from 'node:assert/strict'
import { test } from 'vitest'
import { resolveConfig } from '../../src/cli/config/config.ts'
import { readSource, root } from '../house/sources.ts'

const unit = await readSource('packaging/systemd/signalbox.service')

function directive(name: string): string | undefined {
  return new RegExp(`^${name}=(.*)$`, 'm').exec(unit)?.[1]
}

test('the unit runs the server as an unprivileged user, and gives it the time it needs to stop', () => {
  assert.match(directive('ExecStart')!, / signalbox serve$/)
  assert.equal(directive('DynamicUser'), 'yes')
  assert.equal(directive('MemoryDenyWriteExecute'), undefined, 'V8 compiles while it runs')
  const { grace } = resolveConfig({ flags: {}, env: {}, folder: `${root}packaging` }).values
  assert.ok(Number.parseInt(directive('TimeoutStopSec')!, 10) * 1_000 > grace + 5_000)
})

test('the unit’s example settings are all known settings', async () => {
  const lines = (await readSource('packaging/systemd/signalbox.env')).split('\n')
  const pairs = lines.flatMap((line) => /^#(\w+)=(.*)$/.exec(line)?.slice(1, 3) ?? [])
  const env: Record<string, string> = {}
  for (let at = 0; at < pairs.length; at += 2) env[pairs[at]!] = pairs[at + 1]!
  assert.ok(Object.keys(env).length > 5)
  for (const secret of [env.SIGNALBOX_TOKEN, env.SIGNALBOX_SECRET_KEY])
    assert.equal(secret, '', 'no secret that an operator might use as it stands')
  const { values } = resolveConfig({
    flags: {},
    env: { ...env, SIGNALBOX_TOKEN: 'x'.repeat(32), SIGNALBOX_SECRET_KEY: '0'.repeat(64) },
    folder: `${root}packaging`,
  })
  assert.equal(values.host, '0.0.0.0')
})
