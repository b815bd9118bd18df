import assert from 'node:assert/strict'
import { chmodSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, test } from 'vitest'
import { isSignalboxError } from '../../core/errors.ts'
import { type ConfigSources, type ResolvedConfig, resolveConfig, resolveSetting } from './config.ts'
import { problemLines } from './problems.ts'
import { settingNames, settings, variableOf } from './settings.ts'

const root = mkdtempSync(join(tmpdir(), 'signalbox-config-'))
afterAll(() => rmSync(root, { recursive: true, force: true }))

/** A new folder with these files. */
function folderWith(files: Readonly<Record<string, string>> = {}): string {
  const folder = mkdtempSync(join(root, 'f-'))
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text, { mode: 0o600 })
  return folder
}

function resolve(given: Partial<ConfigSources> = {}): ResolvedConfig {
  return resolveConfig({ flags: {}, env: {}, folder: root, ...given })
}

/** Every line that is wrong with it. */
function problemsOf(given: Partial<ConfigSources>): readonly string[] {
  try {
    resolve(given)
  } catch (error) {
    assert.ok(isSignalboxError(error, 'invalid_argument'), String(error))
    return problemLines(error)
  }
  assert.fail('nothing was found wrong')
}

const aSecret = 'canary-0123456789abcdef0123456789abcdef'

test('without settings, every value is its default and marked as such', () => {
  const { values, sources, file, secrets } = resolve()
  assert.equal(values.host, '127.0.0.1')
  assert.equal(values.port, 7420)
  assert.equal(values.database, 'sqlite:signalbox.db')
  assert.equal(values.migrate, true)
  assert.equal(values.thread, true)
  assert.equal(values.retention, undefined)
  assert.deepEqual(new Set(Object.values(sources)), new Set(['default']))
  assert.deepEqual([file, secrets], [undefined, []])
})

test('a flag wins over its variable, that over the file, and that over the default', () => {
  const folder = folderWith({ 'signalbox.config.json': '{"port":1,"host":"127.0.0.3","grace":"1s"}' })
  const { values, sources } = resolve({
    folder,
    flags: { port: '3' },
    env: { SIGNALBOX_PORT: '2', SIGNALBOX_HOST: '127.0.0.2' },
  })
  assert.deepEqual([values.port, values.host, values.grace, values.json], [3, '127.0.0.2', 1_000, false])
  assert.deepEqual(
    [sources.port, sources.host, sources.grace, sources.json],
    ['--port', 'SIGNALBOX_HOST', 'signalbox.config.json: grace', 'default'],
  )
})

test('names follow one rule: allowedHosts is --allowed-hosts and SIGNALBOX_ALLOWED_HOSTS', () => {
  const { sources } = resolve({ flags: { allowedHosts: 'a.example', migrate: false } })
  assert.deepEqual([sources.allowedHosts, sources.migrate], ['--allowed-hosts', '--no-migrate'])
  assert.equal(variableOf('maxRequestsPerPrincipal'), 'SIGNALBOX_MAX_REQUESTS_PER_PRINCIPAL')
})

test('each setting means the same as a variable, as text, and in a file, as JSON', () => {
  const said: Readonly<Record<string, readonly [text: string, json: unknown]>> = {
    host: ['127.0.0.9', '127.0.0.9'],
    port: ['0', 0],
    allowedHosts: ['a.example, b.example:8080', ['a.example', 'b.example:8080']],
    trustedProxies: ['127.0.0.1, fd00::/8', ['127.0.0.1', 'fd00::/8']],
    database: ['memory:', 'memory:'],
    redis: ['redis://127.0.0.1', 'redis://127.0.0.1'],
    locksMultiNode: ['false', false],
    locksConflicts: ['pull+delete', [['pull', 'delete']]],
    guards: ['sql', 'sql'],
    onceWhenDown: ['closed', 'closed'],
    onceTimeout: ['1s', '1s'],
    monitorDistributedLockTtl: ['1m', 60_000],
    monitorKeep: ['30d', '30d'],
    dispatchHeartbeat: ['5s', 5_000],
    dispatchSuspectAfter: ['1m', '1m'],
    dispatchGoneAfter: ['90s', 90_000],
    dispatchClosedGrace: ['0', 0],
    dispatchAccept: ['20s', '20s'],
    dispatchLease: ['1m', 60_000],
    dispatchServerLease: ['20s', '20s'],
    allowPrivate: ['127.0.0.0/8, ::1', ['127.0.0.0/8', '::1']],
    migrate: ['false', false],
    thread: ['false', false],
    retention: ['30d', '30d'],
    alertsBehind: ['2m', 120_000],
    alertsNoWorker: ['30s', '30s'],
    alertsLock: ['1h', '1h'],
    alertsEvery: ['5s', 5_000],
    series: ['false', false],
    seriesMinutes: ['1d', '1d'],
    seriesHours: ['30d', '30d'],
    redact: ['password, card.*', ['password', 'card.*']],
    grace: ['250', 250],
    logLevel: ['debug', 'debug'],
    quietHealth: ['true', true],
    json: ['true', true],
  }
  for (const name of settingNames) {
    // Files that are named are read and checked together.
    if (/^(token|secretKey)(File)?$|^tls/.test(name)) continue
    const [text, json] = said[name] ?? ['9', 9]
    const byVariable = resolve({ env: { [variableOf(name)]: text } })
    const byFile = resolve({
      folder: folderWith({ 'signalbox.config.json': JSON.stringify({ [name]: json }) }),
    })
    assert.notDeepEqual(byVariable.values[name], settings[name].default, name)
    assert.deepEqual(byVariable.values[name], byFile.values[name], name)
    assert.equal(byVariable.sources[name], variableOf(name))
    assert.equal(byFile.sources[name], `signalbox.config.json: ${name}`)
  }
})

test('timeouts of dispatch that contradict each other are refused, with the setting to change', () => {
  const lines = problemsOf({
    flags: { dispatchHeartbeat: '10s', dispatchSuspectAfter: '5s' },
    env: { SIGNALBOX_DISPATCH_GONE_AFTER: '4s' },
  })
  assert.deepEqual(lines, [
    '--dispatch-suspect-after must not be less than the heartbeat of nodes (dispatchHeartbeat, 10000 ms).',
    'SIGNALBOX_DISPATCH_GONE_AFTER must not be less than dispatchSuspectAfter (5000 ms): a node is suspect before it is gone.',
  ])
})

test('all mistakes are reported at once, each with its source', () => {
  const folder = folderWith({
    'signalbox.config.json': '{"grace":"soon","prot":1,"token":"x","thread":"yes"}',
  })
  const lines = problemsOf({
    folder,
    flags: { port: '99999', retention: '0' },
    env: {
      SIGNALBOX_HOST: '',
      SIGNALBOX_PROT: '1',
      SIGNALBOX_LOG_LEVEL: 'loud',
      SIGNALBOX_ALLOWED_HOSTS: 'ok.example,http://x',
      SIGNALBOX_TEST_APT: '0',
      SIGNALBOX_TOKEN: 'short',
    },
  })
  const expected = [
    /^SIGNALBOX_HOST must be an IP address or localhost, not ""\.$/,
    /^--port must be a whole number from 0 to 65535, not 99999\.$/,
    /^SIGNALBOX_ALLOWED_HOSTS must be host names.*not "http:\/\/x"\.$/,
    /^signalbox\.config\.json: thread must be true or false, not "yes"\.$/,
    /^--retention must be milliseconds of 1000 or more.*not 0\.$/,
    /^SIGNALBOX_TOKEN must be a secret.*it has 5 characters, and 32 are the least\.$/,
    /^signalbox\.config\.json: grace must be milliseconds.*not "soon"\.$/,
    /^SIGNALBOX_LOG_LEVEL must be one of.*not "loud"\.$/,
    /^"SIGNALBOX_PROT" is not a variable of Signalbox\. Did you mean SIGNALBOX_PORT\?$/,
    /^signalbox\.config\.json: "prot" is no setting\. Did you mean port\?$/,
    /^signalbox\.config\.json: token is not taken from a file of settings\. Set SIGNALBOX_TOKEN.*$/,
  ]
  assert.equal(lines.length, expected.length, lines.join('\n'))
  for (const [index, pattern] of expected.entries()) assert.match(lines[index]!, pattern)
})

test('no error message contains a password or a secret', () => {
  const lines = [
    ...problemsOf({ flags: { database: 'oracle://u:CANARY@h/x' } }),
    ...problemsOf({ env: { SIGNALBOX_DATABASE: 'u:CANARY@h/x' } }),
    ...problemsOf({ env: { SIGNALBOX_TOKEN: 'CANARY with spaces, and long enough all the same' } }),
    ...problemsOf({ flags: { tokenFile: join(folderWith({ secrets: 'CANARY\n' }), 'secrets') } }),
    ...problemsOf({ folder: folderWith({ 'signalbox.config.json': '{"database":"postgres://u:CANARY@h"' }) }),
  ]
  assert.equal(lines.length, 5)
  assert.doesNotMatch(lines.join('\n'), /CANARY/)
})

test('a server on every address needs its host names', () => {
  for (const host of ['0.0.0.0', '::', '[::]']) {
    const [line, ...more] = problemsOf({ env: { SIGNALBOX_HOST: host } })
    assert.deepEqual(more, [])
    assert.match(line!, /^SIGNALBOX_HOST is .*--allowed-hosts or SIGNALBOX_ALLOWED_HOSTS/)
    resolve({ flags: { host, allowedHosts: 'jobs.example.com' } })
  }
  resolve({ flags: { host: '192.0.2.7' } })
})

test('a config file in TypeScript is run, and its default export counts', () => {
  const folder = folderWith({
    'signalbox.config.ts': `
      interface Mine { readonly port: number; readonly retention: string }
      const mine: Mine = { port: 1000 + 80, retention: '30d' }
      export default mine
    `,
  })
  const { values, sources, file } = resolve({ folder })
  assert.deepEqual([values.port, values.retention], [1080, 30 * 86_400_000])
  assert.deepEqual([sources.port, file], ['signalbox.config.ts: port', 'signalbox.config.ts'])
})

test('two config files are refused, unless one of them is named', () => {
  const folder = folderWith({
    'signalbox.config.ts': 'export default { port: 1 }',
    'signalbox.config.json': '{ "port": 2 }',
    'other.json': '{ "port": 3 }',
  })
  const [line, ...more] = problemsOf({ folder })
  assert.deepEqual(more, [])
  assert.match(line!, /^There are signalbox\.config\.ts and signalbox\.config\.json here; keep one/)
  assert.equal(resolve({ folder, flags: { config: 'signalbox.config.json' } }).values.port, 2)
  const { values, sources } = resolve({ folder, env: { SIGNALBOX_CONFIG: 'other.json' } })
  assert.deepEqual([values.port, sources.port], [3, 'other.json: port'])
})

test('an unusable config file gives the reason on one line', () => {
  for (const [name, text, reason] of [
    [
      'signalbox.config.json',
      '{"port":1,}',
      /^signalbox\.config\.json is not JSON \(at position \d+ .*\)\.$/,
    ],
    ['signalbox.config.json', '[1]', /^signalbox\.config\.json must hold an object of settings\.$/],
    ['signalbox.config.ts', 'export const port = 1', /^signalbox\.config\.ts must end in `export default/],
    ['signalbox.config.ts', 'export default 7', /^signalbox\.config\.ts must hold an object of settings\.$/],
    ['signalbox.config.ts', 'throw new Error("no luck")', /^signalbox\.config\.ts failed.*: no luck$/],
    ['signalbox.config.ts', 'await 1\nexport default {}', /must not await at its top level/],
    ['signalbox.config.ts', 'export default {', /^signalbox\.config\.ts failed while it was loaded: /],
  ] as const) {
    const [line, ...more] = problemsOf({ folder: folderWith({ [name]: text }) })
    assert.deepEqual(more, [])
    assert.match(line!, reason)
  }
  for (const config of ['gone.json', 'gone.ts', '.'])
    assert.match(problemsOf({ flags: { config } })[0]!, /cannot be read \(E[A-Z]+\)\.$/)
})

test('only own keys of the file are settings, inherited ones are not', () => {
  const folder = folderWith({ 'signalbox.config.json': '{"__proto__":{"port":1},"constructor":1}' })
  const lines = problemsOf({ folder })
  assert.match(lines.join('\n'), /"__proto__" is no setting[\s\S]*"constructor" is no setting/)
})

test('secrets come from the variable and from the file, each once', () => {
  const folder = folderWith({ secrets: `# for the deploy\n${aSecret}\n\n  ${aSecret}x\n` })
  const { secrets } = resolve({
    env: { SIGNALBOX_TOKEN: aSecret, SIGNALBOX_TOKEN_FILE: join(folder, 'secrets') },
  })
  assert.deepEqual(secrets, [aSecret, `${aSecret}x`])
})

test('a token file that other users can read, or without a strong secret, is refused', () => {
  const folder = folderWith({
    open: aSecret,
    group: aSecret,
    empty: '# none\n',
    short: `${aSecret}\nshort\n`,
  })
  chmodSync(join(folder, 'open'), 0o644)
  chmodSync(join(folder, 'group'), 0o660)
  for (const [file, reason] of [
    ['open', /which other users may read or write \(mode 644\)\. Run: chmod 600 /],
    ['group', /which other users may read or write \(mode 660\)/],
    ['empty', /which holds no secret\. Write one a line/],
    ['short', /whose secret 2 cannot be used: it has 5 characters/],
    ['gone', /which cannot be read \(ENOENT\)/],
    ['.', /which is not a file/],
  ] as const) {
    const [line, ...more] = problemsOf({ flags: { tokenFile: join(folder, file) } })
    assert.deepEqual(more, [])
    assert.match(line!, /^--token-file names "/)
    assert.match(line!, reason)
  }
})

test('a command that needs only the database runs despite other mistakes in the settings', () => {
  const folder = folderWith({ 'signalbox.config.json': '{"database":"sqlite:mine.db","nope":1}' })
  const env = { SIGNALBOX_PORT: 'x', SIGNALBOX_NOPE: '1' }
  assert.equal(resolveSetting('database', { flags: {}, env, folder }), 'sqlite:mine.db')
  assert.equal(resolveSetting('database', { flags: { database: 'memory:' }, env, folder }), 'memory:')
})

test('a command that needs only the database reports a misspelt database setting', () => {
  const folder = folderWith({ 'signalbox.config.json': '{"databse":"sqlite:mine.db"}' })
  const given = { flags: {}, env: {}, folder }
  assert.throws(() => resolveSetting('database', given), /"databse" is no setting\. Did you mean database\?$/)
  const env = { SIGNALBOX_DATABSE: 'sqlite:mine.db' }
  assert.throws(
    () => resolveSetting('database', { ...given, env, folder: folderWith({}) }),
    /"SIGNALBOX_DATABSE" is not a variable of Signalbox\. Did you mean SIGNALBOX_DATABASE\?$/,
  )
  assert.equal(resolveSetting('database', { ...given, env: { SIGNALBOX_DATABASE: 'memory:' } }), 'memory:')
  assert.equal(resolveSetting('redis', given), undefined)
})

test('an unknown setting that resembles no other does not stop a command that needs only the database', () => {
  const folder = folderWith({})
  // Another program may have such a variable.
  const env = { SIGNALBOX_DB: 'x', SIGNALBOX_FOO: 'x', SIGNALBOX_READS: 'x' }
  assert.throws(() => resolve({ env, folder }), {
    details: {
      problems: Object.keys(env).map(
        (name) =>
          `"${name}" is not a variable of Signalbox. Unset it; --help of a command lists its variables.`,
      ),
    },
  })
  assert.equal(resolveSetting('redis', { flags: {}, env, folder }), undefined)
})

test('settings of a module may be grouped in the file, and pairs of operations are read from text', () => {
  const nested = '{"locks":{"multi_node":false,"conflicts":[["pull","delete"]]}}'
  const { values, sources } = resolve({ folder: folderWith({ 'signalbox.config.json': nested }) })
  assert.equal(values.locksMultiNode, false)
  assert.deepEqual(values.locksConflicts, [['pull', 'delete']])
  assert.equal(sources.locksMultiNode, 'signalbox.config.json: locks.multi_node')

  const env = { SIGNALBOX_LOCKS_MULTI_NODE: 'false', SIGNALBOX_LOCKS_CONFLICTS: 'pull+delete, update+delete' }
  const other = resolve({ env })
  assert.equal(other.values.locksMultiNode, false)
  assert.deepEqual(other.values.locksConflicts, [
    ['pull', 'delete'],
    ['update', 'delete'],
  ])
  assert.equal(resolve({ env, flags: { locksConflicts: 'a+b' } }).sources.locksConflicts, '--locks-conflicts')

  const wrong: readonly [string, RegExp][] = [
    [
      '{"locks":{"multiNode":false,"multi_node":true}}',
      /locks\.multi_node is a second locksMultiNode; the first is at .*locks\.multiNode\. Keep one/,
    ],
    ['{"locks":{"multiNode":"off"}}', /locks\.multiNode must be/],
    ['{"locks":{"conflicts":[["pull"]]}}', /locks\.conflicts\[0\] must be a pair/],
    [
      '{"locks":{"delay":1}}',
      /"locks\.delay" is no setting\. Remove it; there are locks\.multiNode, locks\.conflicts/,
    ],
    ['{"port":{"a":1}}', /port must be/],
    ['{"lock":{"a":1}}', /"lock" is no setting\. Did you mean locks\?/],
  ]
  for (const [text, message] of wrong) {
    const [problem = ''] = problemsOf({ folder: folderWith({ 'signalbox.config.json': text }) })
    assert.match(problem, message, text)
  }
  const [inText = ''] = problemsOf({ env: { SIGNALBOX_LOCKS_CONFLICTS: 'pull' } })
  assert.match(inText, /SIGNALBOX_LOCKS_CONFLICTS\[0\] must be a pair/)
})

test('a file may write pairs of operations as the flag does', () => {
  const pairs = [
    ['pull', 'delete'],
    ['update', 'delete'],
  ]
  for (const written of [
    '[pull+delete, update+delete]',
    'pull+delete, update+delete',
    '[[pull, delete], update+delete]',
  ]) {
    const text = `locks:\n  conflicts: ${written}\n`
    const { values } = resolve({ folder: folderWith({ 'signalbox.config.yaml': text }) })
    assert.deepEqual(values.locksConflicts, pairs, written)
  }
  const [problem = ''] = problemsOf({
    folder: folderWith({ 'signalbox.config.yaml': 'locks: { conflicts: [pull] }' }),
  })
  assert.match(problem, /locks\.conflicts\[0\] must be a pair/)
})

/** As the seed of the monitor has it, comments included. */
const seedYaml = `monitor:
  distributed:
    lock_ttl: 20s              # 处理锁超时时间
    notification_interval: 6m   # 相同状态通知间隔
    event_dedup_ttl: 7m        # 事件去重有效期

  performance:
    batch_size: 50            # 批量操作大小
    max_concurrent: 5         # 最大并发处理数
`

test('a YAML file is read with the groups and spellings that users write', () => {
  for (const name of ['signalbox.config.yaml', 'signalbox.config.yml']) {
    const { values, sources, file } = resolve({ folder: folderWith({ [name]: seedYaml }) })
    assert.equal(file, name)
    assert.deepEqual(
      [
        ...[values.monitorDistributedLockTtl, values.monitorDistributedNotificationInterval],
        ...[values.monitorDistributedEventDedupTtl, values.monitorPerformanceBatchSize],
        values.monitorPerformanceMaxConcurrent,
      ],
      [20_000, 360_000, 420_000, 50, 5],
    )
    assert.equal(sources.monitorDistributedLockTtl, `${name}:3:5: monitor.distributed.lock_ttl`)
  }
  const text = 'allowed_hosts: [jobs.example.com]\nlocks: { multi-node: false }\ndispatch:\n  heartbeat: 5s\n'
  const { values } = resolve({ folder: folderWith({ 'signalbox.config.yaml': text }) })
  assert.deepEqual(
    [values.allowedHosts, values.locksMultiNode, values.dispatchHeartbeat],
    [['jobs.example.com'], false, 5_000],
  )
  const comments = resolve({ folder: folderWith({ 'signalbox.config.yaml': '# nothing yet\n' }) })
  assert.equal(comments.values.port, 7420)
})

test('a mistake in a YAML file is reported with its line and column, and the nearest key', () => {
  const name = 'signalbox.config.yaml'
  for (const [text, expected] of [
    [
      seedYaml.replace('lock_ttl', 'lock_tll'),
      `${name}:3:5: "monitor.distributed.lock_tll" is no setting. Did you mean monitor.distributed.lock_ttl?`,
    ],
    [
      seedYaml.replace('distributed', 'distribted'),
      `${name}:2:3: "monitor.distribted" is no setting. Did you mean monitor.distributed?`,
    ],
    ['port: 80\nprot: 81', `${name}:2:1: "prot" is no setting. Did you mean port?`],
    ['port: eighty', `${name}:1:1: port must be a whole number from 0 to 65535, not "eighty".`],
    ['quiet_health: on', `${name}:1:1: quiet_health must be true or false, not "on".`],
    [
      'token: abc',
      `${name}:1:1: token is not taken from a file of settings. Set SIGNALBOX_TOKEN, or name a file with tokenFile.`,
    ],
    ['port: 1\nport: 2', `${name}:2:1 is not YAML: Map keys must be unique.`],
    ['a: b: canary', `${name}:1:4 is not YAML: Nested mappings are not allowed in compact mappings.`],
    ['- 1', `${name} must hold an object of settings.`],
    [
      'dispatch: { gone_after: 1s }',
      `${name}:1:13: dispatch.gone_after must not be less than dispatchSuspectAfter (30000 ms): a node is suspect before it is gone.`,
    ],
  ] as const) {
    const problems = problemsOf({ folder: folderWith({ [name]: text }) })
    assert.deepEqual(problems, [expected])
  }
})

test('an invalid address or range of a trusted proxy is refused with its text before anything is opened', () => {
  for (const [text, message] of [
    [
      '10.0.0.0/33',
      /^SIGNALBOX_TRUSTED_PROXIES must be an address or a range such as "10\.1\.0\.0\/16".*not "10\.0\.0\.0\/33"/,
    ],
    ['10.0.0.1,proxy.example.com', /^SIGNALBOX_TRUSTED_PROXIES\[1\] must be .*not "proxy\.example\.com"/],
    ['::ffff:10.0.0.0/104', /is an IPv4 address written as IPv6; write the IPv4 range itself/],
  ] as const)
    assert.throws(() => resolve({ env: { SIGNALBOX_TRUSTED_PROXIES: text } }), { message })
})
