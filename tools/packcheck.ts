/**
 * `npm run pack:check`: looks at the package as a stranger gets it. The tarball holds what it must and nothing else;
 * installed into an empty project by npm, without install scripts, every public name can be imported, its types are
 * found, and the command starts a server with its dashboard and ends when it is told to.
 */
import assert from 'node:assert/strict'
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

interface Manifest {
  readonly name: string
  readonly bin: Readonly<Record<string, string>>
  readonly exports: Readonly<Record<string, string | Readonly<Record<string, string>>>>
  readonly dependencies?: Readonly<Record<string, string>>
  readonly peerDependencies?: Readonly<Record<string, string>>
}

const root = join(import.meta.dirname, '..')
const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as Manifest

function run(command: string, args: readonly string[], cwd: string): string {
  const { status, stdout, stderr, error } = spawnSync(command, args, {
    cwd,
    encoding: 'utf8',
    timeout: 300_000,
  })
  if (status !== 0) throw new Error(`${command} ${args.join(' ')} failed: ${error ?? stdout + stderr}`)
  return stdout
}

/** Packs; a dry run alone lists. npm prints a list of packages, or an object by name: the only one is ours. */
function pack(...args: string[]): { files: string[]; filename: string } {
  const printed = JSON.parse(run('npm', ['pack', '--json', '--ignore-scripts', ...args], root))
  const [packed] = Object.values(printed) as { files: { path: string }[]; filename: string }[]
  if (packed === undefined) throw new Error('npm packed nothing')
  return { files: packed.files.map(({ path }) => path), filename: packed.filename }
}

/** The files package.json points to. `source` is for this checkout, which alone has src. */
function promisedFiles(): string[] {
  const targets = Object.values(manifest.exports).flatMap((entry) =>
    typeof entry === 'string'
      ? [entry]
      : Object.entries(entry).flatMap(([condition, target]) => (condition === 'source' ? [] : [target])),
  )
  return [...targets, ...Object.values(manifest.bin), './dist/dashboard/index.html'].map((target) =>
    target.replace(/^\.\//, ''),
  )
}

/** Built code, and the dashboard with its files compressed beside them. */
function isOurs(file: string): boolean {
  return /^dist\/.*\.(js|d\.ts)$/.test(file) || /^dist\/dashboard\/(assets\/)?[\w.-]+$/.test(file)
}

const documents = ['README.md', 'README.zh-CN.md', 'CHANGELOG.md', 'LICENSE', 'package.json']

/** What is wrong with the list of packed files. */
function complaints(files: readonly string[], promised: readonly string[]): string[] {
  const missing = [...new Set([...promised, ...documents])].filter((file) => !files.includes(file))
  const foreign = files.filter((file) => !documents.includes(file) && !isOurs(file))
  const tests = files.filter((file) => /\.test\./.test(file))
  return [
    ...missing.map((file) => `missing: ${file}`),
    ...new Set([...foreign, ...tests].map((file) => `does not belong: ${file}`)),
  ]
}

/** The names a consumer may import; `./package.json` is data. */
function publicNames(): string[] {
  return Object.keys(manifest.exports)
    .filter((key) => !key.endsWith('.json'))
    .map((key) => join(manifest.name, key))
}

/**
 * Installs the tarball into an empty project. What `npm ci` has brought here need not be fetched again. A Node of its
 * own, which is among the optional dependencies, is not needed.
 */
function installInto(project: string): string {
  const { filename } = pack('--pack-destination', project)
  writeFileSync(join(project, 'package.json'), '{ "type": "module" }')
  const flags = ['--ignore-scripts', '--omit=optional', '--prefer-offline', '--no-audit', '--no-fund']
  run('npm', ['install', ...flags, `./${filename}`], project)
  return join(project, 'node_modules', manifest.name)
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
  run('npx', ['--no', '--', 'signalbox', '--help'], project)
  await serveIn(project)
}

const { files } = pack('--dry-run')
const wrong = complaints(files, promisedFiles())
if (wrong.length > 0) {
  console.error(wrong.join('\n'))
  process.exit(1)
}
const project = mkdtempSync(join(tmpdir(), 'signalbox-pack-'))
try {
  await tryIn(project, installInto(project))
} finally {
  rmSync(project, { recursive: true, force: true })
}
console.log(`${files.length} files packed; a consumer can start it, and import ${publicNames().join(', ')}`)
