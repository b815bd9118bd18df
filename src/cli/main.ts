#!/usr/bin/env node
// This file checks the version of Node before it imports anything. An older Node may not parse Signalbox, and its syntax
// error would hide the reason.
const neededMajor = 24

if (Number.parseInt(process.versions.node, 10) < neededMajor) {
  process.stderr.write(
    `signalbox: Node ${neededMajor} or newer is required; this is Node ${process.versions.node}.\n`,
  )
  process.exitCode = 1
} else {
  // Node keeps compiled code for the next start.
  const { enableCompileCache } = await import('node:module')
  enableCompileCache()
  process.stdout.on('error', ({ code }: NodeJS.ErrnoException) => {
    // The reader closed the pipe, as `head` does.
    if (code === 'EPIPE') process.exit(0)
    process.stderr.write(`signalbox: the output could not be written (${code}).\n`)
    process.exit(1)
  })
  // A closed standard error must not end a server, or a command that runs under a lock.
  process.stderr.on('error', () => {})
  const { run } = await import('./run.ts')
  process.exitCode = await run(process.argv.slice(2))
}

export {}
