/**
 * `npm run pack:check`: checks the package as users get it. The tarball holds what it must and nothing else, every link of its
 * pages leads to a file in it, and publint and "Are the types wrong?" agree with its manifest. Installed into an empty project by npm,
 * it stays small and brings no Node: scripts of the project run on the user's own. Every public name can be imported, its types are
 * found, and the command starts a server with its dashboard and ends when it is told to. It prints every file and the size of the install.
 */
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import type { Bill } from './package/bill-of-materials.ts'
import {
  consumerEnv,
  findNodeFault,
  findSizeFault,
  installedPackages,
  installInto,
  megabytes,
  neededNode,
  run,
  sizeOf,
} from './package/consumer.ts'
import { findFileFaults, findLinkFaults, type Manifest } from './package/packed-files.ts'

const root = join(import.meta.dirname, '..')
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Manifest
const neededMajor = 24

interface Packed {
  readonly filename: string
  readonly size: number
  readonly files: readonly { readonly path: string; readonly size: number }[]
}

/** Packs into a folder. npm prints a list of packages, or an object by name: the only one is ours. */
function packInto(folder: string): Packed {
  const args = ['pack', '--json', '--ignore-scripts', '--pack-destination', folder]
  const [packed] = Object.values(JSON.parse(run('npm', args, root))) as Packed[]
  if (packed === undefined) throw new Error('npm packed nothing')
  return packed
}

/** The names a consumer may import; `./package.json` is data. */
function publicNames(): string[] {
  return Object.keys(manifest.exports)
    .filter((key) => !key.endsWith('.json'))
    .map((key) => join(manifest.name, key))
}

/** What others who look at packages say about this one. */
function lint(tarball: string): void {
  run('publint', ['run', tarball, '--strict'], root)
  // The package has ES modules alone, which CommonJS of Node 24 can require.
  run('attw', [tarball, '--profile', 'esm-only', '--format', 'ascii', '--no-emoji'], root)
}

/** What a user of an older Node sees: one sentence, and no stack. */
function checkOlderNode(project: string): void {
  const env = consumerEnv()
  const version = run('node', ['--version'], project, env).trim()
  if (Number.parseInt(version.slice(1), 10) >= neededMajor) return
  const bin = join(project, 'node_modules', manifest.name, manifest.bin.signalbox!)
  const { status, stderr } = spawnSync('node', [bin, '--version'], {
    env,
    encoding: 'utf8',
    timeout: serveMs,
  })
  assert.equal(status, 1, `on Node ${version} the command ends with 1`)
  assert.match(stderr, /^signalbox: Node 24 or newer is required; this is Node [\d.]+\.\n$/)
  console.log(`on Node ${version}: ${stderr.trim()}`)
}

/** What is wrong with what npm installed, beyond what can be imported. */
function findInstallFaults(project: string): readonly string[] {
  const size = sizeOf(join(project, 'node_modules'))
  console.log(`install size: ${megabytes(size.bytes)} MB in ${size.fileCount} files, without optional peers`)
  const bill = JSON.parse(
    readFileSync(join(project, 'node_modules', manifest.name, 'dist', 'sbom.cdx.json'), 'utf8'),
  ) as Bill
  // By name: a user gets the newest versions that the ranges of dependencies allow, the bill has those of the lockfile.
  const billed = new Set([bill.metadata.component, ...bill.components].map(({ name }) => name))
  return [
    findSizeFault(size),
    findNodeFault(project, consumerEnv(neededNode)),
    findNodeFault(project, consumerEnv()),
    ...installedPackages(project)
      .filter((name) => !billed.has(name))
      .map((name) => `The bill of materials does not have ${name}, which npm installs.`),
  ].filter((fault) => fault !== undefined)
}

/** Adds what a consumer of every engine has installed besides; another package may have brought it already. */
function linkInto(project: string, packages: readonly string[]): void {
  for (const name of packages) {
    const link = join(project, 'node_modules', name)
    if (existsSync(link)) continue
    mkdirSync(dirname(link), { recursive: true })
    symlinkSync(join(root, 'node_modules', name), link)
  }
}

function fail(faults: readonly string[]): void {
  if (faults.length > 0) throw new Error(faults.join('\n'))
}

/** With nothing installed but the package: a job on the embedded engine, and a clear word where a driver is needed. */
const bareUse = `
import { open } from 'signalbox'
await using box = await open('sqlite:bare.db')
await box.jobs.add('hello', { to: 'world' })
const [job] = await box.jobs.claim()
if (job?.payload.to !== 'world') throw new Error('the job did not come back')
await box.jobs.ack(job)
for (const url of ['postgres://127.0.0.1/none', 'mysql://127.0.0.1/none']) {
  const code = await open(url).then(() => 'opened', (error) => error.code)
  if (code !== 'engine_unsupported') throw new Error(\`\${url} without its driver: \${code}\`)
}
`

/** How long a server may take to start, and to stop. */
const serveMs = 30_000

/** Starts what npm made of `bin`, asks for the page, and ends it as a supervisor would. */
async function serveIn(project: string): Promise<void> {
  const bin = join(project, 'node_modules', '.bin', 'signalbox')
  const child = spawn(bin, ['serve', '--port=0', '--json', '--log-level=error'], {
    cwd: project,
    env: consumerEnv(neededNode),
    stdio: ['ignore', 'pipe', 'inherit'],
    timeout: serveMs,
    killSignal: 'SIGKILL',
  })
  const ended = once(child, 'exit')
  let said = ''
  for await (const chunk of child.stdout) {
    said += chunk
    if (said.includes('\n')) break
  }
  const { url } = JSON.parse(said) as { url: string }
  const page = await fetch(url, { headers: { accept: 'text/html' }, signal: AbortSignal.timeout(serveMs) })
  assert.match(await page.text(), /<title>Signalbox/, 'the dashboard is in the package')
  child.kill('SIGTERM')
  assert.deepEqual(await ended, [0, null], 'it ends well when it is told to')
}

async function tryIn(project: string, installed: string): Promise<void> {
  const imports = publicNames().map((name, i) => `import * as name${i} from '${name}'`)
  const uses = publicNames().map((_, i) => `if (Object.keys(name${i}).length === 0) throw new Error('empty')`)
  writeFileSync(join(project, 'bare.js'), bareUse)
  run(process.execPath, ['bare.js'], project)
  linkInto(project, Object.keys(manifest.peerDependencies ?? {}))
  writeFileSync(join(project, 'consumer.ts'), [...imports, ...uses, ''].join('\n'))
  run(process.execPath, ['consumer.ts'], project)
  // The declarations are checked too, as a consumer without skipLibCheck would.
  const nodeTypes = ['--types', 'node', '--typeRoots', join(root, 'node_modules', '@types')]
  const strictness = ['--noEmit', '--strict', '--module', 'nodenext', '--target', 'es2024', '--lib', 'esnext']
  run('tsc', [...strictness, ...nodeTypes, 'consumer.ts'], project)
  for (const bin of Object.values(manifest.bin)) {
    if (!readFileSync(join(installed, bin), 'utf8').startsWith('#!')) throw new Error(`${bin} has no #! line`)
    run(process.execPath, [join(installed, bin), '--help'], project)
  }
  run('npx', ['--no', '--', 'signalbox', '--help'], project, consumerEnv(neededNode))
  await serveIn(project)
}

const project = mkdtempSync(join(tmpdir(), 'signalbox-pack-'))
try {
  const packed = packInto(project)
  const files = packed.files.map(({ path }) => path)
  for (const { path, size } of packed.files) console.log(`${String(size).padStart(8)} ${path}`)
  console.log(`${files.length} files in a tarball of ${megabytes(packed.size)} MB`)
  fail([
    ...findFileFaults(files, manifest),
    ...findLinkFaults(files, (file) => readFileSync(join(root, file), 'utf8')),
  ])
  const tarball = join(project, packed.filename)
  lint(tarball)
  installInto(project, tarball)
  fail(findInstallFaults(project))
  checkOlderNode(project)
  await tryIn(project, join(project, 'node_modules', manifest.name))
  console.log(`A consumer can start it, and import ${publicNames().join(', ')}`)
} catch (error) {
  console.error((error as Error).message)
  process.exitCode = 1
} finally {
  rmSync(project, { recursive: true, force: true })
}
