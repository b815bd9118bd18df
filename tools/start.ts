/**
 * `npm start` and `npm run demo`: `signalbox serve` and `signalbox demo` from a checkout. The configuration is checked first; then the dashboard is built when
 * it is missing or was built from other sources; then it serves.
 */
const neededMajor = 24

if (Number.parseInt(process.versions.node, 10) < neededMajor) {
  process.stderr.write(
    `signalbox: Node ${neededMajor} or newer is required; this is Node ${process.versions.node}.\n`,
  )
  process.exitCode = 1
} else {
  // What was compiled once is kept, as the installed command does it.
  const { enableCompileCache } = await import('node:module')
  enableCompileCache()
  // Imported here, for an older Node may not even parse them.
  const { run } = await import('../src/cli/run.ts')
  const { ensureDashboard } = await import('./dashboard.ts')
  // Standard output is for what the server says of itself.
  const prepareServe = () => ensureDashboard((line) => process.stderr.write(`${line}\n`))
  const [first, ...rest] = process.argv.slice(2)
  const args = first === 'demo' ? ['demo', ...rest] : ['serve', ...process.argv.slice(2)]
  process.exitCode = await run(args, undefined, { prepareServe })
}

export {}
