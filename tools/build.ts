/** `npm run build`: src and the dashboard to dist, from nothing, so that a file deleted in src is not shipped. */
import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { buildDashboard } from './dashboard.ts'

const root = join(import.meta.dirname, '..')
const dist = join(root, 'dist')

rmSync(dist, { recursive: true, force: true })
const { status } = spawnSync('tsc', ['-p', 'tsconfig.build.json'], {
  cwd: root,
  stdio: 'inherit',
  timeout: 300_000,
})
if (status !== 0) process.exit(status ?? 1)

await buildDashboard()

// npm makes a bin executable when it installs the package; from a checkout it is we who do.
const bin = join(dist, 'cli', 'main.js')
if (existsSync(bin)) chmodSync(bin, 0o755)
