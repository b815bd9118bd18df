import assert from 'node:assert/strict'
import { test } from 'vitest'
import { moduleOptions } from '../../src/cli/commands/serve.ts'
import { resolveConfig } from '../../src/cli/config/config.ts'
import {
  flagOf,
  type SettingName,
  settingNames,
  settings,
  variableOf,
} from '../../src/cli/config/settings.ts'
import type { Kind } from '../../src/cli/config/value-kinds.ts'
import { dispatchDefaults } from '../../src/dispatch/dispatch-options.ts'
import { registryDefaults } from '../../src/dispatch/registry/registry-state.ts'
import { admissionDefaults } from '../../src/http/server/request/admission.ts'
import { serverDefaults } from '../../src/http/server/server-options.ts'
import { readSource } from '../house/sources.ts'

/** The table row of docs/configuration.md for a setting. */
function rowOf(name: SettingName): string {
  const { takes, none, description, kind, default: fallback } = settings[name]
  const flag = flagOf(name)
  const shownFlag = flag === undefined ? '' : `\`${flag}${takes === undefined ? '' : ` <${takes}>`}\``
  const value = (kind as Kind<unknown>).show(fallback)
  const hasNone = value === null || (Array.isArray(value) && value.length === 0)
  const shownDefault = hasNone ? (none ?? 'none') : `\`${value}\``
  return `| \`${name}\` | ${shownFlag} | \`${variableOf(name)}\` | ${shownDefault} | ${description} |`
}

test('docs/configuration.md has the same table of settings as the program', async () => {
  const rows = settingNames.map(rowOf)
  const documented = (await readSource('docs/configuration.md'))
    .split('\n')
    .filter((line) => /^\| `[a-zA-Z]+` \|.*`SIGNALBOX_/.test(line))
  assert.deepEqual(documented, rows, `it should have:\n${rows.join('\n')}`)
})

test("the default settings of serve are the defaults of the server's own options", () => {
  const { host, port, grace } = settings
  assert.deepEqual(
    [host.default, port.default, grace.default],
    [serverDefaults.host, serverDefaults.port, serverDefaults.graceMs],
  )
  const { dispatchHeartbeat, dispatchClosedGrace, dispatchLease, dispatchServerLease } = settings
  assert.deepEqual(
    [dispatchHeartbeat, dispatchClosedGrace, dispatchLease, dispatchServerLease].map((one) => one.default),
    [
      ...[dispatchDefaults.heartbeatMs, dispatchDefaults.closedGraceMs],
      ...[dispatchDefaults.leaseMs, dispatchDefaults.serverLeaseMs],
    ],
  )
  assert.equal(settings.dispatchAccept.default, registryDefaults.acceptMs)
  for (const [name, value] of Object.entries(admissionDefaults))
    if (name in settings) assert.equal(settings[name as SettingName].default, value, name)
})

test('each configured timeout of dispatch reaches the dispatcher as its option', () => {
  const flags = {
    dispatchHeartbeat: '1s',
    dispatchSuspectAfter: '2s',
    dispatchGoneAfter: '3s',
    dispatchClosedGrace: '4s',
    dispatchAccept: '5s',
    dispatchLease: '6s',
    dispatchServerLease: '7s',
  }
  const { values } = resolveConfig({ flags, env: {}, folder: import.meta.dirname })
  assert.deepEqual(moduleOptions(values).dispatch, {
    heartbeatMs: 1_000,
    suspectAfterMs: 2_000,
    goneAfterMs: 3_000,
    closedGraceMs: 4_000,
    leaseMs: 6_000,
    serverLeaseMs: 7_000,
    policy: { acceptMs: 5_000 },
  })
})
