/**
 * Builds the dashboard into dist/dashboard, with its files compressed beside them. `npm run build` always builds; `npm
 * start` builds when the existing files come from other sources. The new build replaces the old one in one step, so no
 * reader ever finds half of one.
 */
import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { brotliCompressSync, constants, gzipSync } from 'node:zlib'
import { bundledPackagesFile } from './package/bundled-packages.ts'

const root = join(import.meta.dirname, '..')
const target = join(root, 'dist', 'dashboard')
/** What a build is made from; a test beside a source changes nothing. */
const sources = ['dashboard', 'src/http/client', 'src/http/contract', 'src/core', 'package-lock.json']
const timeoutMs = 120_000

/** Whether dist/dashboard was built from the sources as they are. */
export function isCurrent(): boolean {
  try {
    return JSON.parse(readFileSync(join(target, 'build.json'), 'utf8')).sources === sourcesHash()
  } catch {
    return false
  }
}

/** Builds, and returns the packages whose code is in it; throws what Vite said when it cannot. */
export async function buildDashboard(): Promise<readonly string[]> {
  const hash = sourcesHash()
  const made = join(root, 'dist', `.dashboard-${process.pid}`)
  try {
    mkdirSync(made, { recursive: true })
    await runVite(made)
    compress(join(made, 'assets'))
    const listed = join(made, bundledPackagesFile)
    const packages = JSON.parse(readFileSync(listed, 'utf8')) as readonly string[]
    rmSync(listed)
    writeFileSync(join(made, 'build.json'), `${JSON.stringify({ sources: hash, packages })}\n`)
    rmSync(target, { recursive: true, force: true })
    renameSync(made, target)
    return packages
  } finally {
    rmSync(made, { recursive: true, force: true })
  }
}

/** Builds when it must, and never fails: the server is of use without its dashboard. */
export async function ensureDashboard(say: (line: string) => void): Promise<void> {
  if (isCurrent()) return
  const begunAt = performance.now()
  say('Building the dashboard …')
  try {
    await buildDashboard()
    say(`The dashboard was built in ${((performance.now() - begunAt) / 1_000).toFixed(1)} s.`)
  } catch (error) {
    const [why] = String((error as Error).message).split('\n')
    say(
      `The dashboard could not be built, so the server starts ${existsSync(target) ? 'with an older one' : 'without it'}: ${why} Run "npm ci", then "npm run build".`,
    )
  }
}

function runVite(out: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const config = join('dashboard', 'vite.config.ts')
    const vite = join(root, 'node_modules', 'vite', 'bin', 'vite.js')
    if (!existsSync(vite)) {
      reject(new Error('Vite is not installed.'))
      return
    }
    const child = spawn(process.execPath, [vite, 'build', '--config', config, '--logLevel', 'warn'], {
      cwd: root,
      env: { ...process.env, SIGNALBOX_DASHBOARD_OUT: out, NODE_ENV: 'production', NO_COLOR: '1' },
      stdio: ['ignore', 'pipe', 'pipe'],
      timeout: timeoutMs,
    })
    let said = ''
    child.stdout.on('data', (chunk) => (said += chunk))
    child.stderr.on('data', (chunk) => (said += chunk))
    child.on('error', reject)
    child.on('close', (code) => {
      if (code === 0) resolve()
      else reject(new Error(said.trim() || `Vite ended with ${code}.`))
    })
  })
}

function compress(folder: string): void {
  for (const name of readdirSync(folder)) {
    const path = join(folder, name)
    const bytes = readFileSync(path)
    const size = { [constants.BROTLI_PARAM_SIZE_HINT]: bytes.length }
    writeFileSync(`${path}.br`, brotliCompressSync(bytes, { params: size }))
    writeFileSync(`${path}.gz`, gzipSync(bytes, { level: 9 }))
  }
}

function sourcesHash(): string {
  const hash = createHash('sha256')
  for (const path of sources.flatMap((name) => filesIn(join(root, name)))) {
    hash.update(relative(root, path)).update('\0').update(readFileSync(path)).update('\0')
  }
  return hash.digest('hex')
}

/** Every file below, in an order that is always the same. */
function filesIn(path: string): readonly string[] {
  if (!existsSync(path)) return []
  try {
    return readdirSync(path, { recursive: true, withFileTypes: true })
      .filter((entry) => entry.isFile() && !/\.(test\.tsx?|md)$/.test(entry.name))
      .map((entry) => join(entry.parentPath, entry.name))
      .sort()
  } catch {
    return [path]
  }
}

if (import.meta.main) {
  if (process.argv.includes('--if-needed')) await ensureDashboard((line) => console.error(line))
  else await buildDashboard()
}
