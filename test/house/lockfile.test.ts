import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { promisify } from 'node:util'
import { test } from 'vitest'
import { findLockfileFaults, findLooseDependencies, findMachineTraces } from './lockfile.ts'
import { readSource, root } from './sources.ts'

test('the lockfile names no registry and adds no unknown install script', async () => {
  assert.deepEqual(findLockfileFaults(await readSource('package-lock.json')), [])
})

test('every dependency is pinned to one version', async () => {
  for (const path of ['package.json', 'tools/node-runtime/package.json'])
    assert.deepEqual(findLooseDependencies(JSON.parse(await readSource(path))), [], path)
})

// Git knows which files are ours; a copy without git has nothing to publish.
test.skipIf(!existsSync(`${root}.git`))(
  'no file of the repository shows the machine it was made on',
  { timeout: 60_000 },
  async () => {
    const list = ['ls-files', '-z', '--cached', '--others', '--exclude-standard']
    const { stdout } = await promisify(execFile)('git', list, { cwd: root, maxBuffer: 2 ** 26 })
    const paths = stdout.split('\0').filter((path) => path !== '' && existsSync(root + path))
    assert.ok(paths.includes('package.json'))
    const found = await Promise.all(
      paths.map(async (path) => findMachineTraces(path, await readSource(path))),
    )
    assert.deepEqual(found.flat(), [])
  },
)

test('an address or a script in a lockfile is found', () => {
  const lock = (entry: object) => JSON.stringify({ packages: { 'node_modules/x': entry } })
  assert.deepEqual(findLockfileFaults(lock({ version: '1.0.0' })), [])
  assert.deepEqual(findLockfileFaults(lock({ resolved: 'tools/x', link: true })), [])
  for (const entry of [{ resolved: 'x' }, { resolved: 'https://example.org/x', link: true }])
    assert.match(findLockfileFaults(lock(entry))[0]!, /downloaded/)
  assert.match(findLockfileFaults(lock({ hasInstallScript: true }))[0]!, /node_modules\/x runs a script/)
})

test('a version range is found, whatever its form', () => {
  const good = { dependencies: { a: '1.2.3' }, devDependencies: { b: '18.4.0-beta.17' } }
  assert.deepEqual(findLooseDependencies(good), [])
  for (const version of [
    '^1.2.3',
    '~1.2.3',
    '1.2',
    '1.x',
    '*',
    'latest',
    '',
    '>=1.2.3',
    'file:../x',
    '1.2.3 || 2.0.0',
  ]) {
    assert.equal(findLooseDependencies({ optionalDependencies: { a: version } }).length, 1, version)
  }
})

test("a path of a developer's machine is found, and an ordinary path is not", () => {
  // Joined here, because this file is searched as well.
  for (const parts of [
    ['', 'home', 'someone', 'x'],
    ['', 'root', '.npmrc'],
    ['', 'work', 'main'],
    ['C:', 'Users', 'x'],
  ]) {
    const path = parts.join(parts[0] === 'C:' ? '\\' : '/')
    assert.equal(findMachineTraces('a.ts', `ok\nimport x from '${path}'`).length, 1, path)
  }
  assert.match(
    findMachineTraces('a.ts', `x ${'https:'}//registry.npmjs.org/a`)[0]!,
    /^a\.ts:1 has a registry's address/,
  )
  const inFolder = (before: string) => [before, 'work', 'x'].join('/')
  for (const text of [
    inFolder('.'),
    inFolder('~'),
    inFolder('http://127.0.0.1:7420'),
    'src/home/x',
    '/v1/jobs',
    '/usr/bin/env',
  ]) {
    assert.deepEqual(findMachineTraces('a.ts', text), [], text)
  }
})
