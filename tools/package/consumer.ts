/** An empty project with the package in it, and the environment of a person who has nothing of this checkout on the PATH. */
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, realpathSync, statSync, writeFileSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'

export function run(
  command: string,
  args: readonly string[],
  cwd: string,
  env: NodeJS.ProcessEnv = process.env,
): string {
  const { status, stdout, stderr, error } = spawnSync(command, args, {
    cwd,
    env,
    encoding: 'utf8',
    timeout: 300_000,
    maxBuffer: 2 ** 26,
  })
  if (status !== 0) throw new Error(`${command} ${args.join(' ')} failed: ${error ?? stdout + stderr}`)
  return stdout
}

/** Without the folders that npm puts on the PATH of a script. */
export function consumerEnv(...first: readonly string[]): NodeJS.ProcessEnv {
  const folders = (process.env.PATH ?? '').split(delimiter)
  const own = folders.filter((folder) => !/node_modules[\\/]\.bin|node-gyp-bin/.test(folder))
  return { ...process.env, PATH: [...first, ...own].join(delimiter) }
}

/** The folder of the Node that runs this: one of the version that the package needs. */
export const neededNode: string = dirname(realpathSync(process.execPath))

/**
 * Installs the tarball as `npm install signalbox` would, optional dependencies included. What `npm ci` has brought here
 * need not be fetched again.
 */
export function installInto(project: string, tarball: string): void {
  writeFileSync(join(project, 'package.json'), '{ "type": "module", "private": true }')
  const flags = ['--ignore-scripts', '--prefer-offline', '--no-audit', '--no-fund']
  run('npm', ['install', ...flags, tarball], project, consumerEnv(neededNode))
}

/** Says when a script of the project runs on another Node than the one on the person's PATH. */
export function findNodeFault(project: string, env: NodeJS.ProcessEnv): string | undefined {
  const print = ['-p', 'process.execPath']
  const own = run('node', print, project, env).trim()
  const path = join(project, 'package.json')
  const manifest = JSON.parse(readFileSync(path, 'utf8')) as { scripts?: Record<string, string> }
  writeFileSync(
    path,
    JSON.stringify({ ...manifest, scripts: { ...manifest.scripts, where: `node ${print.join(' ')}` } }),
  )
  const inScript = run('npm', ['run', '--silent', 'where'], project, env).trim()
  console.log(`node -p process.execPath, under npm run: ${inScript}; on the PATH: ${own}`)
  return inScript === own
    ? undefined
    : `A script of npm runs on ${inScript}, not on the user's own Node, ${own}.`
}

export interface Size {
  readonly bytes: number
  readonly fileCount: number
}

/** What a folder takes: the sum of the sizes of its files. Links are not followed. */
export function sizeOf(folder: string): Size {
  const files = readdirSync(folder, { recursive: true, withFileTypes: true }).filter((entry) =>
    entry.isFile(),
  )
  const bytes = files.reduce((sum, { parentPath, name }) => sum + statSync(join(parentPath, name)).size, 0)
  return { bytes, fileCount: files.length }
}

/** The most that an install may take, without optional peers. */
export const maxInstallBytes = 24_000_000

export function findSizeFault({ bytes }: Size, maxBytes: number = maxInstallBytes): string | undefined {
  if (bytes < maxBytes) return undefined
  return `The install takes ${megabytes(bytes)} MB. It must stay under ${megabytes(maxBytes)} MB.`
}

export function megabytes(bytes: number): string {
  return (bytes / 1e6).toFixed(1)
}

/** The names of the packages that npm put there, by the list it keeps. */
export function installedPackages(project: string): readonly string[] {
  const list = JSON.parse(readFileSync(join(project, 'node_modules', '.package-lock.json'), 'utf8'))
  return Object.keys(list.packages).map((path) => path.replace(/.*node_modules\//, ''))
}
