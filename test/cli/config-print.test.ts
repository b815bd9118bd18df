import assert from 'node:assert/strict'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'vitest'
import { settingNames } from '../../src/cli/config/settings.ts'
import { createWorkplace } from './command.ts'

test('config print shows every value and its source, and opens nothing', async () => {
  using place = createWorkplace()
  writeFileSync(join(place.folder, 'signalbox.config.ts'), 'export default { retention: 86_400_000 * 30 }')
  const { code, out, err } = await place.run(
    ['config', 'print', '--no-thread', '--allowed-hosts=a.example,b.example'],
    {
      SIGNALBOX_PORT: '8080',
    },
  )
  assert.deepEqual([code, err], [0, ''])
  const lines = out
    .trimEnd()
    .split('\n')
    .map((line) => line.split(/ {2,}/))
  assert.deepEqual(
    lines.map(([name]) => name),
    ['SETTING', ...settingNames],
  )
  const shown = new Map(lines.map(([name, ...rest]) => [name, rest]))
  assert.deepEqual(shown.get('host'), ['127.0.0.1', 'default'])
  assert.deepEqual(shown.get('port'), ['8080', 'SIGNALBOX_PORT'])
  assert.deepEqual(shown.get('thread'), ['false', '--no-thread'])
  assert.deepEqual(shown.get('allowedHosts'), ['a.example, b.example', '--allowed-hosts'])
  assert.deepEqual(shown.get('retention'), ['30d', 'signalbox.config.ts: retention'])
  assert.deepEqual(shown.get('token'), ['(not set)', 'default'])
  assert.equal(existsSync(join(place.folder, 'signalbox.db')), false)
})

test('config print --json prints one line for programs, and its values fit into a config file', async () => {
  using place = createWorkplace()
  const { out } = await place.call(['config', 'print', '--json', '--grace=90s', '--port=1'])
  const { file, settings } = JSON.parse(out)
  assert.equal(file, null)
  assert.deepEqual(settings.grace, { value: '90s', source: '--grace' })
  const values = Object.entries(settings as Record<string, { value: unknown }>)
    .filter(([, { value }]) => value !== null)
    .map(([name, { value }]) => [name, value])
  writeFileSync(join(place.folder, 'signalbox.config.json'), JSON.stringify(Object.fromEntries(values)))
  const again = JSON.parse((await place.call(['config', 'print'])).out)
  assert.equal(again.file, 'signalbox.config.json')
  assert.deepEqual(again.settings.grace, { value: '90s', source: 'signalbox.config.json: grace' })
  assert.equal(again.settings.port.value, 1)
})

test('config print shows no secret: no token and no password of an address', async () => {
  using place = createWorkplace()
  writeFileSync(join(place.folder, 'secrets'), `CANARY${'x'.repeat(40)}\n`, { mode: 0o600 })
  for (const json of [[], ['--json']]) {
    const { code, out, err } = await place.run(['config', 'print', '--token-file=secrets', ...json], {
      SIGNALBOX_TOKEN: `CANARY${'y'.repeat(40)}`,
      SIGNALBOX_DATABASE: 'postgres://CANARY:CANARY@db.example:5433/shop?password=CANARY',
    })
    assert.equal(code, 0, err)
    assert.doesNotMatch(out, /CANARY/)
    assert.match(out, /\(set\)/)
    assert.match(out, /postgres:\/\/db\.example:5433\/shop/)
  }
})

test('config print reports the same mistakes as serve, with exit code 2', async () => {
  using place = createWorkplace()
  const { code, out, err } = await place.call(['config', 'print', '--port=x', '--log-level=loud'])
  assert.deepEqual([code, out], [2, ''])
  assert.match(err, /^signalbox: --port must be .*\nsignalbox: --log-level must be .*\n$/)
})
