/**
 * `npm run build`: src and the dashboard to dist, from nothing, so that a file deleted in src is not shipped; and the bill of
 * materials of both.
 */
import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { buildDashboard } from './dashboard.ts'
import { billOfShipped, readLockfileBill } from './package/bill-of-materials.ts'

const root = join(import.meta.dirname, '..')
const dist = join(root, 'dist')

rmSync(dist, { recursive: true, force: true })
const { status } = spawnSync('tsc', ['-p', 'tsconfig.build.json'], {
  cwd: root,
  stdio: 'inherit',
  timeout: 300_000,
})
if (status !== 0) process.exit(status ?? 1)

const bundled = await buildDashboard()

const { name, dependencies } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  name: string
  dependencies: Record<string, string>
}
const bill = billOfShipped(readLockfileBill(root), { name, dependencies: Object.keys(dependencies), bundled })
writeFileSync(join(dist, 'sbom.cdx.json'), `${JSON.stringify(bill, null, 2)}\n`)

// npm makes a bin executable when it installs the package; from a checkout it is we who do.
const bin = join(dist, 'cli', 'main.js')
if (existsSync(bin)) chmodSync(bin, 0o755)
